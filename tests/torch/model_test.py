"""optimize() and LatheLinear: whole models, what is skipped, weights that are quantised, and what is kept."""

import copy
import pathlib
import pickle

import gguf
import lathe
import lathe.torch
import numpy
import pytest
import torch
from lathe.torch import _quantise
from speed import spacing
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

KINDS = {"int8": (gguf.GGMLQuantizationType.Q8_0, 32), "q4_k": (gguf.GGMLQuantizationType.Q4_K, 256)}


def llama(dtype, tied=False):
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=1024, hidden_size=256, intermediate_size=512, num_hidden_layers=2,
                         num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=128,
                         tie_word_embeddings=tied)
    return LlamaForCausalLM(config).eval().to(dtype)


def generate(model, prompt, tokens=12):
    return model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=tokens,
                          min_new_tokens=tokens, do_sample=False, pad_token_id=0)


def logits(model, tokens):
    with torch.inference_mode():
        return model(tokens).logits.double()


def without_lathe(model, weights):
    """A copy in float64 whose Linear weights are what gguf reads from the quantised blocks."""
    model = copy.deepcopy(model).double()
    for layer in model.modules():
        if isinstance(layer, nn.Linear) and weights is not None:
            kind, _ = KINDS[weights]
            blocks = getattr(_quantise, {"int8": "q8_0"}.get(weights, weights))(layer.weight.detach().bfloat16())
            values = gguf.quants.dequantize(blocks.reshape(layer.weight.shape[0], -1), kind)
            layer.weight.data = torch.from_numpy(values).double()
    return model


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_llama_generates_the_same_tokens(dtype, batch):
    model = llama(dtype)
    prompt = torch.randint(0, 1024, (batch, 6), generator=torch.Generator().manual_seed(2))
    before, expected = logits(model, prompt), generate(model, prompt)
    exact = logits(without_lathe(model, None), prompt)
    lathe.torch.optimize(model, m_max=64, progress=False)
    assert len(model.lathe_report.replaced) == 2 * 7 + 1 and not model.lathe_report.skipped
    after, tokens = logits(model, prompt), generate(model, prompt)
    # Lathe's logits are as near to float64's as PyTorch's.
    assert (after - exact).abs().max() <= 1.5 * (before - exact).abs().max() + 1e-6
    # Where the tokens of a sequence first differ, two logits were equal but for rounding.
    for row in (tokens != expected).any(1).nonzero().flatten().tolist():
        at = (tokens[row] != expected[row]).nonzero()[0].item()
        prefix, pair = expected[row:row + 1, :at], [expected[row, at], tokens[row, at]]
        exact = logits(without_lathe(llama(dtype), None), prefix)[0, -1]
        own, lathes = logits(llama(dtype), prefix)[0, -1], logits(model, prefix)[0, -1]
        rounding = (own - exact).abs().max()
        assert exact[pair[0]] - exact[pair[1]] <= 2 * rounding
        if dtype is torch.bfloat16:
            for better, values in ((0, own), (1, lathes)):
                assert values[pair[better]] - values[pair[1 - better]] <= 2 * spacing(values[pair[better]])


@pytest.mark.parametrize("weights", ["int8", "q4_k"])
def test_llama_with_quantised_weights(weights):
    model = llama(torch.bfloat16)
    prompt = torch.randint(0, 1024, (8, 6), generator=torch.Generator().manual_seed(2))
    exact = logits(without_lathe(model, weights), prompt)
    lathe.torch.optimize(model, weights, m_max=64, progress=False)
    assert model.lathe_report.after < model.lathe_report.before * {"int8": 0.54, "q4_k": 0.29}[weights]
    lathe.set_miss_policy("error")  # the warm-up has prepared everything
    try:
        error = (logits(model, prompt) - exact).abs().max()
        tokens = generate(model, prompt)
    finally:
        lathe.set_miss_policy("block")
    # What is left is the rounding of activations, to int8 in blocks and to bfloat16.
    assert error < 0.05 * exact.abs().max()
    assert tokens.shape == (8, 18)


def test_the_document_runs():
    text = (pathlib.Path(__file__).parents[2] / "docs/pytorch.md").read_text()
    programs = [block.split("```")[0] for block in text.split("```python\n")[1:]]
    assert programs
    for program in programs:
        exec(compile(program, "docs/pytorch.md", "exec"), {})


def test_tied_weights():
    model = llama(torch.float32, tied=True)
    prompt = torch.arange(5)[None]
    expected = logits(model, prompt)
    names = set(model.state_dict())
    lathe.torch.optimize(model, m_max=8, progress=False, skip=[name for name, layer in model.named_modules()
                                                              if isinstance(layer, nn.Linear) and name != "lm_head"])
    assert model.lathe_report.replaced == ["lm_head"]
    torch.testing.assert_close(logits(model, prompt), expected, rtol=1e-5, atol=1e-5)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert set(model.state_dict()) == names


@pytest.mark.parametrize("weights", [None, "int8"])
def test_torch_compile(weights):
    model = nn.Sequential(nn.Linear(64, 96), nn.SiLU(), nn.Linear(96, 32, bias=False)).requires_grad_(False)
    lathe.torch.optimize(model, weights, m_max=8, progress=False)
    x = torch.randn(2, 3, 64)
    compiled = torch.compile(model, fullgraph=True)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(compiled(x[:1]), model(x[:1]), rtol=1e-5, atol=1e-5)

    @torch.compile(fullgraph=True)
    def function(x, weight):
        return lathe.torch.argmax(lathe.torch.linear(x, weight), 1)

    x, weight = torch.randn(4, 8), torch.randn(5, 8)
    assert torch.equal(function(x, weight), (x @ weight.T).argmax(1))


def test_autograd_is_refused():
    model = lathe.torch.optimize(nn.Sequential(nn.Embedding(4, 32), nn.Linear(32, 8)), m_max=2, progress=False)
    with pytest.raises(RuntimeError, match="inference_mode"):
        model(torch.tensor([1]))
    with torch.no_grad():
        assert model(torch.tensor([1])).shape == (1, 8)
    with pytest.raises(RuntimeError, match="float64, but the layer was made for torch.float32"):
        model[1](torch.zeros(1, 32).double())


class Own(nn.Linear):
    pass


def test_skips_with_a_reason():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.own, self.double, self.odd = Own(32, 8), nn.Linear(32, 8).double(), nn.Linear(33, 8)
            self.meta, self.hooked, self.good = nn.Linear(32, 8, device="meta"), nn.Linear(32, 8), nn.Linear(32, 8)
            self.attention, self.asked = nn.MultiheadAttention(32, 4), nn.Linear(32, 8)
            self.again, self.empty = self.good, nn.Linear(32, 0)

    model = Model()
    model.hooked.register_forward_hook(lambda *_: None)
    lathe.torch.optimize(model, "int8", m_max=1, skip=["asked"], progress=False)
    report = model.lathe_report
    assert report.replaced == ["good", "again"] and model.good is model.again
    for name, reason in {"own": "is a Own", "double": "float64", "odd": "whole blocks of 32", "meta": "on meta",
                         "hooked": "hooks", "asked": "the caller", "empty": "empty",
                         "attention.out_proj": "NonDynamicallyQuantizableLinear"}.items():
        assert reason in report.skipped[name], name
    assert set(report.skipped) == {"own", "double", "odd", "meta", "hooked", "asked", "empty", "attention.out_proj"}
    assert "2 Linear layers replaced, 8 skipped" in str(report)
    with pytest.raises(ValueError, match="'int8' or 'q4_k'"):
        lathe.torch.optimize(model, "int4")
    encoder = lathe.torch.optimize(nn.TransformerEncoderLayer(32, 4, 32), m_max=1, progress=False)
    assert "without calling it" in encoder.lathe_report.skipped["linear1"]


def test_progress_goes_to_stderr(capsys):
    single = lathe.torch.optimize(nn.Linear(32, 16), m_max=1)
    shown = capsys.readouterr()
    assert isinstance(single, lathe.torch.LatheLinear) and single.lathe_report.replaced == ["0"]
    assert shown.out == "" and "packing" in shown.err and "compiling" in shown.err
    assert "1 Linear layers replaced" in shown.err


def test_without_its_weight_a_layer_refuses_to_be_saved():
    model = lathe.torch.optimize(nn.Sequential(nn.Linear(32, 8)), m_max=1, progress=False)
    for action in (model.state_dict, lambda: model.load_state_dict({"0.weight": torch.zeros(8, 32)}),
                   lambda: pickle.dumps(model), lambda: copy.deepcopy(model), model.half):
        with pytest.raises(RuntimeError, match="keep_weight=True"):
            action()
    with pytest.raises(AttributeError, match="keep_weight=True"):
        model[0].weight
    assert model.float()(torch.zeros(1, 32).detach()).shape == (1, 8)


@pytest.mark.parametrize("weights", [None, "int8"])
def test_with_its_weight_a_layer_can_be_saved(weights):
    plain = nn.Sequential(nn.Linear(32, 8)).requires_grad_(False)
    model = lathe.torch.optimize(copy.deepcopy(plain), weights, m_max=1, keep_weight=True, progress=False)
    x, other = torch.randn(3, 32), nn.Sequential(nn.Linear(32, 8)).requires_grad_(False)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert torch.equal(twin(x), model(x))
    assert {name: value.shape for name, value in model.state_dict().items()} == \
        {name: value.shape for name, value in plain.state_dict().items()}
    model.load_state_dict(other.state_dict())
    tolerance = dict(rtol=1e-5, atol=1e-5) if weights is None else dict(rtol=0.05, atol=0.05)
    torch.testing.assert_close(model(x), other(x), **tolerance)
    model.bfloat16()
    assert model(x.bfloat16()).dtype == torch.bfloat16
    torch.testing.assert_close(model(x.bfloat16()).float(), other(x), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("weights", ["int8", "q4_k"])
def test_quantisers_match_gguf(weights):
    kind, block = KINDS[weights]
    weight = torch.randn(100, 3 * block, generator=torch.Generator().manual_seed(3))
    weight[0], weight[1], weight[2, :block], weight[3] = 0, 1, -2, weight[3] * 1e-9
    weight[4], weight[5] = weight[4].abs(), -weight[5].abs()
    if weights == "int8":
        expected = gguf.quants.quantize(weight.numpy(), kind)
        assert (_quantise.q8_0(weight) == expected.reshape(-1)).all()
        return
    blocks = _quantise.q4_k(weight)
    values = gguf.quants.dequantize(blocks.reshape(100, -1), kind)
    error = numpy.abs(values - weight.numpy()).reshape(-1, 32)
    # At most half a step of 15 over the block's span with 0, half a step of the 6-bit scale and minimum, and 10 % more
    # in single elements, as the search minimises the weighted sum of squares.
    x = weight.numpy().reshape(-1, 32)
    span = numpy.maximum(x.max(1), 0) - numpy.minimum(x.min(1), 0)
    group = span.reshape(-1, 8).max(1).repeat(8)
    assert (error.max(1) <= 0.5 * span / 15 * 1.6 + group / 63 + 1e-8).all()
    # Better than q4_1, which has the same 4 bits without the search, and whose scales are not quantised.
    kind = gguf.GGMLQuantizationType.Q4_1
    simple = gguf.quants.dequantize(gguf.quants.quantize(weight.numpy(), kind), kind)
    assert numpy.square(error[6 * 3 * 8:]).mean() < numpy.square(simple - weight.numpy())[6:].mean()
