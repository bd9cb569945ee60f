"""Compares `lathe manifest` with the shapes of published models: with the tensors of their checkpoints, split over
ranks, and with the layers in shapes.csv.

usage: manifest_test.py LATHE SHAPES.CSV
"""
import csv
import json
import pathlib
import re
import sys
import tempfile

import model_weights
from manifest_command import CONFIGS, config_of, lathe, listed, made_of, manifest, manifest_of, run_tests, shapes

SHAPES = sys.argv[2]


def test_real_layers():
    """shapes.csv was not written by `lathe manifest`, but its layers have the same names."""
    checked = 0
    with open(SHAPES) as file:
        for row in csv.DictReader(file):
            model, flags = row["model"], []
            if model.endswith("-tp8"):
                model, flags = model[:-4], ["--tp", 8]
            if not (CONFIGS / f"{model}.json").exists():
                continue
            n, k, _ = shapes(manifest(model, *flags))[row["layer"]]
            assert (n, k) == (int(row["n"]), int(row["k"])), (row, n, k)
            checked += 1
    assert checked >= 30, checked


# The attention tensors of a layer, [outputs, inputs], as in the checkpoint. Computed from the published modules and
# not from the table of `lathe manifest`.
def modules_of(c):
    text = c.get("text_config", c)
    kind, h = text["model_type"], text["hidden_size"]
    heads = text.get("num_attention_heads", 8)
    kv = text.get("num_key_value_heads", 4 if kind == "gemma3_text" else heads)
    d = text.get("head_dim") or text.get("attention_head_dim") or (256 if "gemma" in kind else h // heads)
    t = {}
    if "kv_lora_rank" in text:
        nope, rope, v, low = (text[f] for f in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank"))
        if text["q_lora_rank"]:
            t["q_a_proj"], t["q_b_proj"] = (text["q_lora_rank"], h), (heads * (nope + rope), text["q_lora_rank"])
        else:
            t["q_proj"] = (heads * (nope + rope), h)
        t["kv_a_proj"], t["kv_b_proj"] = (low + rope, h), (heads * (nope + v), low)
        t["o_proj"] = (h, heads * v)
    else:
        t["q_proj"], t["k_proj"], t["v_proj"], t["o_proj"] = (heads * d, h), (kv * d, h), (kv * d, h), (h, heads * d)
        if kind == "qwen3_next":  # the gate of the attention output
            t["q_proj"] = (2 * heads * d, h)
    return t, heads, kv, d


def split_rows(shape, tp):
    assert shape[0] % tp == 0
    return shape[0] // tp, shape[1]


def split_columns(shape, tp):
    assert shape[1] % tp == 0
    return shape[0], shape[1] // tp


def test_attention():
    for path in sorted(CONFIGS.glob("*.json")):
        config = json.loads(path.read_text())
        t, heads, kv, d = modules_of(config)
        for tp in (1, 2, 8, 16):
            if heads % tp:
                result = lathe(path, "--tp", tp)
                assert result.returncode == 2 and f"cannot be split over {tp} ranks" in result.stderr, result
                continue
            if any(size % tp for size in config_sizes(config)):
                continue
            made = shapes(manifest(path.stem, "--tp", tp))
            if "kv_b_proj" in t:
                assert made["kv_b"][:2] == split_rows(t["kv_b_proj"], tp)
                if "q_a_proj" in t:
                    assert made["q_a_kv_a"][:2] == (t["q_a_proj"][0] + t["kv_a_proj"][0], t["q_a_proj"][1])
                    assert made["q_b"][:2] == split_rows(t["q_b_proj"], tp)
                else:
                    assert made["q"][:2] == split_rows(t["q_proj"], tp)
                    assert made["kv_a"][:2] == t["kv_a_proj"]
            else:
                # If there are more ranks than KV heads, each head is on several ranks.
                kv_rows = max(kv, tp) // tp * d
                assert listed(made, "qkv", (t["q_proj"][0] // tp + 2 * kv_rows, t["q_proj"][1])), (path, tp, made)
            assert listed(made, "o", split_columns(t["o_proj"], tp)), (path, tp, made)


def config_sizes(config):
    text = config.get("text_config", config)
    fields = ("intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size")
    sizes = [text[f] for f in fields if f in text]
    return [size for entry in sizes for size in (entry if isinstance(entry, list) else [entry])]


def test_mlp_and_experts():
    for model, tp, expected in (
            ("llama3-8b", 2, {"gate_up": (14336, 4096), "down": (4096, 7168)}),
            ("gemma3-4b", 1, {"gate_up": (20480, 2560), "down": (2560, 10240)}),
            ("mixtral-8x7b", 8, {"router": (8, 4096), "expert_gate_up": (3584, 4096), "expert_down": (4096, 1792)}),
            ("qwen3-30b-a3b", 4, {"router": (128, 2048), "expert_gate_up": (384, 2048), "expert_down": (2048, 192)}),
            ("qwen2-57b-a14b", 2, {"router": (64, 3584), "expert_gate_up": (2560, 3584), "shared_expert_gate_up": (20480, 3584),
                                   "shared_expert_down": (3584, 10240), "shared_expert_gate": (1, 3584)}),
            ("deepseek-v3", 8, {"gate_up": (4608, 7168), "down": (7168, 2304), "router": (256, 7168), "expert_gate_up": (512, 7168),
                                "shared_expert_gate_up": (512, 7168), "shared_expert_down": (7168, 256)}),
            ("deepseek-v2-lite", 1, {"shared_expert_gate_up": (5632, 2048), "shared_expert_down": (2048, 2816)}),
            ("gpt-oss-20b", 4, {"expert_gate_up": (1440, 2880), "expert_down": (2880, 720)})):
        made = shapes(manifest(model, "--tp", tp))
        for name, shape in expected.items():
            assert listed(made, name, shape), (model, name, made)
    assert "gate_up" not in shapes(manifest("mixtral-8x7b")), "every layer has experts"
    whole = shapes(manifest("deepseek-v3", "--tp", 8, "--whole-experts"))
    assert whole["expert_gate_up"][:2] == (4096, 7168) and whole["shared_expert_gate_up"][:2] == (512, 7168), whole


def test_forms_of_experts():
    """Gate and up are products of half the width; down is also summed over a token's experts, in f32."""
    def forms(model, *flags):
        fields = ("n", "k", "d", "activation", "combine", "residual", "bias")
        made = manifest(model, *flags) if isinstance(model, str) else made_of(model, *flags)
        found = {}
        for e in made["classes"]:
            if e["name"].startswith("expert_"):
                found.setdefault(e["name"], []).append(tuple(e.get(field) for field in fields))
        return {name: sorted(rows, key=str) for name, rows in found.items()}

    def expected(hidden, size, gate, up=None, bias=None):
        return {"expert_gate_up": [(2 * size, hidden, "bf16", None, None, None, bias)],
                "expert_gate_up gated": [(size, hidden, "bf16", gate, "multiply", "f32", bias),
                                         (size, hidden, "f32", up, None, None, bias)],
                "expert_down": [(hidden, size, "bf16", None, None, None, bias)],
                "expert_down summed": [(hidden, size, "f32", None, None, None, bias)]}

    assert forms("qwen3-30b-a3b") == expected(2048, 768, "silu")
    assert forms("mixtral-8x7b", "--tp", 2) == expected(4096, 7168, "silu")
    assert forms("gpt-oss-20b") == expected(2880, 2880, "silu_clamped", "clamp_plus_one", "bf16")
    # hidden_act names the gate.
    for act, gate in (("swish", "silu"), ("gelu", "gelu"), ("gelu_pytorch_tanh", "gelu_tanh"), ("relu", "relu")):
        assert forms(config_of("mixtral-8x7b", hidden_act=act)) == expected(4096, 14336, gate), act
    assert "expert_gate_up gated" not in forms(config_of("mixtral-8x7b", hidden_act="relu2")), "Lathe has no such gate"
    # A product of bytes has no gate.
    assert set(forms("qwen3-30b-a3b", "--dtype", "i8")) == {"expert_gate_up", "expert_down", "expert_down summed"}


def test_biases():
    def biased(model, *flags):
        return {name for name, (_, _, bias) in shapes(manifest(model, *flags)).items() if bias}
    assert biased("llama3-8b") == set()
    assert biased("qwen2.5-7b") == {"qkv"}
    assert biased("qwen3-8b") == set()
    assert biased("gpt-oss-20b") == {"qkv", "o", "router", "expert_gate_up", "expert_down"}
    assert biased("glm4.5-air") == {"qkv"}
    for model in ("qwen2.5-7b", "qwen2-57b-a14b"):
        made = shapes(made_of(config_of(model, qkv_bias=False)))
        assert not any(bias for _, _, bias in made.values()), (model, made)
        for absent in (config_of(model, qkv_bias=None), config_of(model, qkv_bias=True)):
            assert shapes(made_of(absent))["qkv"][2], model
    assert {"qkv", "o"} == {name for name, (_, _, bias) in shapes(
        made_of(config_of("qwen3-8b", attention_bias=True))).items() if bias}
    minitron = shapes(made_of(config_of("minitron-4b", attention_bias=True, mlp_bias=True)))
    assert {"qkv", "o", "up", "down"} == {name for name, (_, _, bias) in minitron.items() if bias}, minitron
    # If the ranks' results are summed, only one rank adds the bias.
    made = shapes(manifest("gpt-oss-20b", "--tp", 2))
    assert made["o"][:2] == made["o without bias"][:2] and made["o"][2] and not made["o without bias"][2], made


def test_published_weights():
    """The manifest of a model of each family lists every weight that the model multiplies by, and no other. The weights
    add up to the published size."""
    kinds = set()
    for name, weights in model_weights.MODELS.items():
        parameters = sum(rows * columns * copies for _, rows, columns, copies in weights["tensors"]) / 1e9
        assert abs(parameters / weights["billions"] - 1) < 1e-3, (name, parameters)
        made = manifest(name)
        found = set(shapes(made).values())
        expected = model_weights.products(weights)
        assert found == expected, (name, "missing", expected - found, "not the model's", found - expected)
        config = config_of(name)
        kinds.add(config.get("text_config", config)["model_type"])
    known = manifest_of({"model_type": "bert"}).stderr.split("known are ")[1]
    missing = [kind for kind in re.findall(r"([a-z0-9_]+) \(", known) if kind not in kinds]
    assert not missing, f"model_weights.py has no model of these families: {missing}"


def heads_of(made):
    """{(name, op): n} for the output layer."""
    return {(e["name"], e["op"]): e["n"] for e in made["classes"] if e["name"].startswith("lm_head")}


def test_vocabulary_shards():
    """N is the number of real tokens on a rank, without padded rows: a row of zeros wins if all logits are negative."""
    def heads(vocab, ranks, *flags):
        config = config_of("mistral-7b", vocab_size=vocab, hidden_size=6144, num_attention_heads=48, num_key_value_heads=48,
                           head_dim=128, intermediate_size=14592)
        made = made_of(config, "--tp", ranks, *flags)
        found = heads_of(made)
        plain = {name: n for (name, op), n in found.items() if op == "matmul"}
        greedy = {name: n for (name, op), n in found.items() if op == "matmul_argmax"}
        assert greedy == {f"{name} greedy": n for name, n in plain.items()}, found
        return plain, made["about"]["vocabulary"]

    assert heads(32002, 1) == ({"lm_head": 32002}, "32002 padded to 32064, 32064 a rank, 32002 real on rank 0")
    assert heads(32002, 1, "--vocab-multiple", 1) == ({"lm_head": 32002}, "32002 padded to 32002, 32002 a rank")
    assert heads(32000, 2) == ({"lm_head": 16000}, "32000 padded to 32000, 16000 a rank")
    # Padded to 32064 = 4 * 8016; the last rank has 62 fewer tokens.
    assert heads(32002, 4) == ({"lm_head ranks 0 to 2": 8016, "lm_head rank 3": 7954},
                               "32002 padded to 32064, 8016 a rank, 7954 real on rank 3")
    assert heads(32002, 2) == ({"lm_head rank 0": 16032, "lm_head rank 1": 15970},
                               "32002 padded to 32064, 16032 a rank, 15970 real on rank 1")
    # Padded to 32064 = 192 * 167, a multiple of 64 and of 6.
    assert heads(32000, 6)[0] == {"lm_head ranks 0 to 4": 5344, "lm_head rank 5": 5280}
    # 70 tokens in 128 rows on 8 ranks: 16, 16, 16, 16, 6, and none on the others.
    assert heads(70, 8) == ({"lm_head ranks 0 to 3": 16, "lm_head rank 4": 6},
                            "70 padded to 128, 16 a rank, 6 real on rank 4, none on ranks 5 to 7")
    assert heads(64, 8, "--vocab-multiple", 128) == (
        {"lm_head ranks 0 to 3": 16}, "64 padded to 128, 16 a rank, none on ranks 4 to 7")
    # Every token is on exactly one rank, so the shards add up.
    for vocab in (1, 63, 64, 65, 127, 1000, 32001):
        for ranks in (1, 2, 3, 4, 6, 8, 12):
            plain, text = heads(vocab, ranks)
            total = 0
            for name, n in plain.items():
                first, last = re.fullmatch(r"lm_head(?: ranks? (\d+)(?: to (\d+))?)?", name).groups()
                total += n * (ranks if first is None else int(last or first) - int(first) + 1)
            assert total == vocab, (vocab, ranks, plain, text)


def test_head_and_form():
    made = manifest("llama3-70b", "--tp", 8, "--max-m", 4096, "--max-head-m", 64)
    head = [e for e in made["classes"] if e["name"].startswith("lm_head")]
    assert [e["op"] for e in head] == ["matmul", "matmul_argmax"], head
    for e in head:
        assert (e["n"], e["k"], e["m_max"], e["a"], e["trans_b"]) == (128256 // 8, 8192, 64, "bf16", 1), e
    assert head[1]["logits"] == "bf16" and head[1]["wants_values"] == 1, "the shards' maxima are compared by their values"
    assert all(e["m_max"] == 4096 and e["d"] == "bf16" for e in made["classes"] if e not in head)
    assert made["about"] == {"family": "Llama", "tp": "8", "vocabulary": "128256 padded to 128256, 16032 a rank"}, made["about"]
    # 32000 is padded to 192 * 167 = 32064, so each of six ranks has 5344 rows.
    config = json.loads((CONFIGS / "mistral-7b.json").read_text())
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "six.json"
        path.write_text(json.dumps(dict(config, num_attention_heads=48, num_key_value_heads=6, hidden_size=6144,
                                        intermediate_size=14400, vocab_size=32000)))
        out = pathlib.Path(directory) / "out.json"
        assert lathe(path, "--tp", 6, "--output", out).returncode == 0
        six = json.loads(out.read_text())
        assert shapes(six)["lm_head ranks 0 to 4"][:2] == (5344, 6144), shapes(six)
        # More ranks than KV heads.
        replicated = json.loads(lathe(path, "--tp", 12).stdout)
        assert replicated["about"]["kv_heads"].startswith("replicated") and shapes(replicated)["qkv"][:2] == (6 * 128, 6144)

    f8 = manifest("llama3-8b", "--dtype", "f8e4m3", "--determinism", "batch_invariant")
    for e in f8["classes"]:
        is_head = e["name"].startswith("lm_head")
        assert e["a"] == ("bf16" if is_head else "f8e4m3") and e["determinism"] == "batch_invariant", e
        assert e["op"] == "matmul_argmax" or e["d"] == "bf16", e
    assert {e["a"] for e in manifest("gemma2-9b")["classes"]} == {"f32"}
    assert {e["a"] for e in manifest("gemma2-9b", "--dtype", "f16")["classes"]} == {"f16"}
    # A quantization_config is reported at both levels, unless --dtype is given.
    assert "quantization_config" in lathe(CONFIGS / "deepseek-v3.json").stderr
    gemma = config_of("gemma3-4b")
    inner = dict(gemma, text_config=dict(gemma["text_config"], quantization_config={"quant_method": "fp8"}))
    assert "quantization_config" in manifest_of(inner).stderr
    assert "quantization_config" not in manifest_of(inner, "--dtype", "f8e4m3").stderr
    assert "quantization_config" not in manifest_of(dict(gemma, quantization_config=None)).stderr


run_tests(globals())
print("manifests agree with the models")
