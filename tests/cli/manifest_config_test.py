"""Tests how `lathe manifest` reads the fields of a config: which layers are dense, class defaults, errors.

usage: manifest_config_test.py LATHE
"""
import json
import pathlib
import tempfile

from manifest_command import CONFIGS, config_of, lathe, listed, made_of, manifest, manifest_of, names, run_tests, shapes


DENSE, SPARSE = {"gate_up", "down"}, {"router", "expert_gate_up", "expert_down"}


def kinds_of(config):
    """Whether dense and sparse layers are listed. The sizes must be such that no class has two names."""
    found = names(config)
    assert not DENSE & found or DENSE <= found, found
    assert not SPARSE & found or SPARSE <= found, found
    return (DENSE <= found, SPARSE <= found)


def test_dense_and_sparse_layers():
    """Both kinds of layers are listed if the model has both by the rules of transformers, and only then."""
    qwen = config_of("qwen2-57b-a14b", num_hidden_layers=28)
    both, dense, sparse = (True, True), (True, False), (False, True)
    # Layer i has experts if (i + 1) % step == 0, none is listed as dense, and there are experts.
    for changes, expected in (({}, sparse), ({"decoder_sparse_step": 2}, both), ({"decoder_sparse_step": 29}, dense),
                              ({"decoder_sparse_step": None, "mlp_only_layers": None}, sparse),
                              ({"mlp_only_layers": [0]}, both), ({"mlp_only_layers": [28]}, sparse),
                              ({"mlp_only_layers": list(range(28))}, dense), ({"num_experts": 0}, dense),
                              ({"num_hidden_layers": 1, "decoder_sparse_step": 2}, dense),
                              ({"num_hidden_layers": 2, "decoder_sparse_step": 2, "mlp_only_layers": [0]}, both)):
        assert kinds_of(dict(qwen, **changes)) == expected, changes
    for model in ("qwen3-30b-a3b", "qwen3-next-80b-a3b"):
        assert kinds_of(config_of(model, decoder_sparse_step=2, num_nextn_predict_layers=0)) == both, model
    # From first_k_dense_replace on, every moe_layer_freq-th layer has experts.
    deepseek = config_of("deepseek-v3", num_nextn_predict_layers=0)
    for changes, expected in (({}, both), ({"first_k_dense_replace": 0}, sparse), ({"first_k_dense_replace": 61}, dense),
                              ({"first_k_dense_replace": 0, "moe_layer_freq": 2}, both),
                              ({"first_k_dense_replace": 0, "moe_layer_freq": [1] * 61}, sparse),
                              ({"first_k_dense_replace": 0, "moe_layer_freq": [0] + [1] * 60}, both),
                              ({"moe_layer_freq": [0] * 61}, dense),
                              ({"mlp_layer_types": ["sparse"] * 61}, sparse), ({"mlp_layer_types": ["dense"] * 61}, dense)):
        assert kinds_of(dict(deepseek, **changes)) == expected, changes
    # The layer for multi-token prediction comes after the model's layers and follows the same rule.
    assert kinds_of(dict(deepseek, first_k_dense_replace=61, num_nextn_predict_layers=1)) == both
    assert "mtp_eh_proj" not in names(deepseek)
    llama4 = config_of("llama4-maverick")
    for changes, expected in (({}, both), ({"interleave_moe_layer_step": 1}, sparse), ({"moe_layers": []}, dense),
                              ({"moe_layers": list(range(48))}, sparse), ({"moe_layers": [1, 3]}, both)):
        assert kinds_of(dict(llama4, text_config=dict(llama4["text_config"], **changes))) == expected, changes
    hunyuan = config_of("hunyuan-a13b", intermediate_size=5120, moe_intermediate_size=1024, num_shared_expert=2)
    assert kinds_of(hunyuan) == sparse
    assert kinds_of(dict(hunyuan, moe_layer_num_skipped=1)) == both


def test_lists_by_layer():
    """If sizes differ from layer to layer, each size is listed."""
    made = shapes(made_of(config_of("hunyuan-a13b", moe_intermediate_size=[3072] * 31 + [1024], num_experts=[64] * 31 + [16],
                                    num_shared_expert=[1] * 31 + [2])))
    assert {(n, k) for n, k, _ in made.values()} >= {
        (64, 4096), (16, 4096), (6144, 4096), (4096, 3072), (2048, 4096), (4096, 1024), (12288, 4096), (4096, 6144)}, made
    assert made["expert_gate_up 2048x4096"] == (2048, 4096, False), made
    assert not any("shared" in name for name in names(
        config_of("hunyuan-a13b", use_mixed_mlp_moe=False, moe_intermediate_size=1024)))
    # Layers that reuse the keys and values of an earlier layer project only queries.
    assert shapes(made_of(config_of("hunyuan-a13b", use_cla=True, num_attention_heads=40)))["q"] == (5120, 4096, False)
    # The same for the MLP of layers without experts.
    dense = shapes(made_of(config_of("hunyuan-a13b", moe_layer_num_skipped=2, intermediate_size=[5000, 7000] + [3072] * 30)))
    assert {(10000, 4096, False), (4096, 5000, False), (14000, 4096, False), (4096, 7000, False)} <= set(dense.values()), dense
    few = manifest_of(config_of("hunyuan-a13b", moe_topk=8, moe_intermediate_size=[3072] * 31))
    assert few.returncode == 2 and '"moe_intermediate_size" has 31 entries for 32 layers' in few.stderr, few


def test_class_defaults():
    """If a field is missing or null, the manifest uses the default of the class in transformers."""
    def text_of(config):
        return {(n, k, bias) for n, k, bias in shapes(made_of(config)).values()}
    # The text_config of LLaVA-1.5-7B omits Llama's sizes: 4096, 11008, 32 heads.
    llava = {"model_type": "llava", "torch_dtype": "float16", "vision_config": {"hidden_size": 1024},
             "text_config": {"model_type": "llama", "torch_dtype": "float16", "vocab_size": 32064}}
    assert text_of(llava) == {(12288, 4096, False), (4096, 4096, False), (22016, 4096, False), (4096, 11008, False),
                              (32064, 4096, False)}
    answer = manifest_of(llava)
    about = json.loads(answer.stdout)["about"]
    assert about["filled_in"] == "hidden_size 4096, num_attention_heads 32, intermediate_size 11008", about
    assert "vision tower (vision_config)" in about["not_covered"] and "vision tower (vision_config)" in answer.stderr
    nulls = dict(llava, text_config=dict(llava["text_config"], hidden_size=None, intermediate_size=None, head_dim=None,
                                         num_attention_heads=None, num_key_value_heads=None, attention_bias=None))
    assert text_of(nulls) == text_of(llava)
    # If a text_config has no model_type, the outer model_type determines it.
    gemma = config_of("gemma3-4b")
    untyped = dict(gemma, text_config={k: v for k, v in gemma["text_config"].items() if k != "model_type"})
    assert text_of(untyped) == text_of(gemma)
    assert (2304, 2048, False) in text_of({"model_type": "gemma3", "torch_dtype": "bfloat16"}), "its class alone"
    assert text_of(config_of("gemma-7b", head_dim=None)) == text_of(config_of("gemma-7b"))
    # Fields for which the class gives null a meaning: as many KV heads as heads, no latent queries.
    assert shapes(made_of(config_of("mistral-7b", num_key_value_heads=None)))["qkv"][0] == 3 * 4096
    without = {k: v for k, v in config_of("mistral-7b").items() if k != "num_key_value_heads"}
    assert shapes(made_of(without))["qkv"][0] == 4096 + 2 * 1024
    assert "q_b" in shapes(made_of({k: v for k, v in config_of("deepseek-v2-lite").items() if k != "q_lora_rank"}))
    # transformers may write the number of experts under another family's name.
    qwen = config_of("qwen3-30b-a3b")
    renamed = dict({k: v for k, v in qwen.items() if k != "num_experts"}, num_local_experts=64)
    assert shapes(made_of(renamed))["router"] == (64, 2048, False)


def test_null_is_absent():
    """A null field counts as absent, for all fields of all published configs except two, whose null has a meaning in some
    classes."""
    for path in sorted(CONFIGS.glob("*.json")):
        config = json.loads(path.read_text())
        text = config.get("text_config", config)
        for field in sorted(set(text) - {"model_type", "num_key_value_heads", "q_lora_rank"}):
            def answer(changed):
                result = manifest_of(dict(config, text_config=changed) if "text_config" in config else changed)
                return result.returncode, result.stdout
            absent = answer({k: v for k, v in text.items() if k != field})
            assert answer(dict(text, **{field: None})) == absent, (path.stem, field)


def test_linear_attention_and_indexer():
    """Layer types come from a list or an interval. Projections are split over ranks, except an indexer's."""
    made = shapes(manifest("qwen3-next-80b-a3b", "--tp", 4))
    assert made["linear_qkvz"] == (3072, 2048, False) and made["linear_ba"] == (16, 2048, False), made
    assert made["linear_out"] == (2048, 1024, False), made
    assert made["qkv"][:2] == (2 * 4 * 256 + 2 * 256, 2048) and listed(made, "o", (2048, 1024)), made
    # The layer for multi-token prediction has full attention.
    linear = config_of("qwen3-next-80b-a3b", layer_types=["linear_attention"] * 48)
    assert {"linear_qkvz", "qkv"} <= names(linear) and "qkv" not in names(dict(linear, num_nextn_predict_layers=0))
    full = config_of("qwen3-next-80b-a3b", layer_types=["full_attention"] * 48)
    assert "linear_qkvz" not in names(full)
    assert "neither linear_attention nor" in manifest_of(dict(linear, layer_types=["mamba"] * 48)).stderr
    v32 = shapes(manifest("deepseek-v3.2", "--tp", 8))
    assert v32["indexer_q"][:2] == (8192, 1536) and v32["indexer_k"][:2] == (128, 7168), v32
    assert v32["indexer_weights"][:2] == (64, 7168) and v32["mtp_eh_proj"][:2] == (7168, 14336), v32
    for model, words in (("qwen3-next-80b-a3b", "recurrence"), ("deepseek-v3.2", "indexer"), ("minimax-m2", "multi-token"),
                         ("qwen3-vl-30b-a3b", "vision"), ("llama4-maverick", "vision")):
        assert words in manifest(model)["about"]["not_covered"], model
        assert "does not cover" in lathe(CONFIGS / f"{model}.json").stderr, model
    assert "not_covered" not in made_of(config_of("minimax-m2", num_mtp_modules=0))["about"]


def test_refusals():
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "config.json"

        def refused(text, *flags):
            path.write_text(text if isinstance(text, str) else json.dumps(text))
            result = lathe(path, *flags)
            assert result.returncode == 2, result
            return result.stderr
        good = json.loads((CONFIGS / "llama3-8b.json").read_text())
        unknown = refused(dict(good, model_type="bert"))
        for family in ("bert", "llama (Llama)", "qwen3_moe", "gemma3_text", "deepseek_v3", "gpt_oss"):
            assert family in unknown, unknown
        assert "model_type ''" in refused({})
        assert "not a JSON object" in refused([1])
        assert "line 1" in refused("{oops")
        without = {k: v for k, v in good.items() if k != "hidden_size"}
        assert '"hidden_size" is missing' in refused(without)
        for bad in (0, -1, 1.5, "4096", [1], 10**12):
            assert '"hidden_size" is not a whole number' in refused(dict(good, hidden_size=bad)), bad
        assert "too large" in refused(dict(good, intermediate_size=2**31 - 1))
        # A division with a remainder is refused.
        odd_heads = dict(good, hidden_size=4100)
        for heads in (odd_heads, dict(odd_heads, head_dim=None)):
            assert '"head_dim" is missing, and hidden_size 4100 cannot be split over 32' in refused(heads)
        assert "num_attention_heads 32 cannot be split over 5 num_key_value_heads" in refused(dict(good, num_key_value_heads=5))
        assert "8 KV heads cannot be replicated over 12 ranks" in refused(
            dict(good, num_attention_heads=48, hidden_size=6144, num_key_value_heads=8), "--tp", 12)
        assert "num_key_value_heads 6 cannot be split over 4 ranks" in refused(
            dict(good, num_attention_heads=48, hidden_size=6144, num_key_value_heads=6), "--tp", 4)
        assert "intermediate size 14337 cannot be split over 2 ranks" in refused(
            dict(good, intermediate_size=14337), "--tp", 2)
        qwen = config_of("qwen3-next-80b-a3b")
        assert "linear_num_value_heads 33 cannot be split over 16" in refused(dict(qwen, linear_num_value_heads=33))
        assert "linear_num_key_heads 16 cannot be split over 32 ranks" in refused(dict(qwen, num_attention_heads=32), "--tp", 32)
        assert "intermediate size 1407" in refused(config_of("deepseek-v2-lite", moe_intermediate_size=1407), "--tp", 2)
        # A field of a wrong type is named.
        assert '"attention_bias" is neither true nor false' in refused(dict(good, attention_bias="yes"))
        assert '"text_config" is not a JSON object' in refused(dict(good, text_config=[1]))
        assert '"decoder_sparse_step" is not a whole number from 1' in refused(dict(qwen, decoder_sparse_step=0))
        assert '"mlp_only_layers" is not a list' in refused(dict(qwen, mlp_only_layers=3))
        assert '"num_hidden_layers" is not a whole number' in refused(dict(good, num_hidden_layers=[32]))
        assert "the number of layers is 2147483647, but must be from 1 to 4096" in refused(dict(good, num_hidden_layers=2**31 - 1))
        assert "neither dense nor sparse" in refused(config_of("deepseek-v3", mlp_layer_types=["thick"] * 61))
        assert "cannot be split over 3 ranks" in refused(good, "--tp", 3)
        assert "--tp" in refused(good, "--tp", 0)
        # For an unknown dtype the error asks for --dtype. If there is no dtype, bf16 is used, with a message.
        odd = dict(good, torch_dtype="float8_e4m3fn")
        assert "torch_dtype 'float8_e4m3fn' is not float32, float16 or bfloat16: give --dtype T" in refused(odd)
        assert lathe(path, "--dtype", "f16").stderr == ""
        assert "results of the layers are bf16" in lathe(path, "--dtype", "f8e4m3").stderr
        path.write_text(json.dumps({k: v for k, v in good.items() if k != "torch_dtype"}))
        silent = lathe(path)
        assert silent.returncode == 0 and "has no known torch_dtype: results of the layers are bf16" in silent.stderr, silent
        assert {e["a"] for e in json.loads(silent.stdout)["classes"]} == {"bf16"}
    assert lathe("/nowhere/config.json").returncode == 2


run_tests(globals())
print("manifests agree with the configs")
