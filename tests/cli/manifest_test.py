"""`lathe manifest` against the shapes of published models: what their modules hold, by the names of the checkpoints'
tensors, split over ranks tensor by tensor; and against the real layers of shapes.csv.

usage: manifest_test.py LATHE SHAPES.CSV
"""
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

LATHE, SHAPES = sys.argv[1:]
CONFIGS = pathlib.Path(__file__).parent / "configs"
NONE, F = "none", {"f32", "f16", "bf16"}


def lathe(*words):
    return subprocess.run([LATHE, "manifest", *map(str, words)], capture_output=True, text=True, timeout=60)


def manifest(model, *flags):
    result = lathe(CONFIGS / f"{model}.json", *flags)
    assert result.returncode == 0, result
    return json.loads(result.stdout)


def shapes(made):
    """{name: (n, k, has a bias)} of the matmuls."""
    return {e["name"]: (e["n"], e["k"], "bias" in e) for e in made["classes"] if e["op"] == "matmul"}


def test_real_layers():
    """shapes.csv was not written by this program. Its experts' names and MLA's are this program's too."""
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


# Tensors of a layer as the checkpoints have them, [out, in]: the published modules, not this program's table.
def modules_of(c):
    text = c.get("text_config", c)
    kind, h = text["model_type"], text["hidden_size"]
    heads = text.get("num_attention_heads", 8)
    kv = text.get("num_key_value_heads", 4 if kind == "gemma3_text" else heads)
    d = text.get("head_dim") or (256 if "gemma" in kind else h // heads)
    t = {}
    if kind.startswith("deepseek"):
        nope, rope, v, low = (text[f] for f in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank"))
        if text["q_lora_rank"]:
            t["q_a_proj"], t["q_b_proj"] = (text["q_lora_rank"], h), (heads * (nope + rope), text["q_lora_rank"])
        else:
            t["q_proj"] = (heads * (nope + rope), h)
        t["kv_a_proj"], t["kv_b_proj"] = (low + rope, h), (heads * (nope + v), low)
        t["o_proj"] = (h, heads * v)
    else:
        t["q_proj"], t["k_proj"], t["v_proj"], t["o_proj"] = (heads * d, h), (kv * d, h), (kv * d, h), (h, heads * d)
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
                # A KV head is on as many ranks as there are more ranks than heads.
                kv_rows = max(kv, tp) // tp * d
                assert made["qkv"][:2] == (t["q_proj"][0] // tp + 2 * kv_rows, t["q_proj"][1]), (path, tp, made)
            assert made["o"][:2] == split_columns(t["o_proj"], tp), (path, tp)


def config_sizes(config):
    text = config.get("text_config", config)
    return [text[f] for f in ("intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size") if f in text]


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
            # A layer of the sizes of one before it is the same class, and has that one's name.
            found = [made[name][:2]] if name in made else [(n, k) for n, k, _ in made.values() if (n, k) == shape]
            assert found == [shape], (model, name, made)
    assert "gate_up" not in shapes(manifest("mixtral-8x7b")), "every layer has experts"
    whole = shapes(manifest("deepseek-v3", "--tp", 8, "--whole-experts"))
    assert whole["expert_gate_up"][:2] == (4096, 7168) and whole["shared_expert_gate_up"][:2] == (512, 7168), whole


def test_biases():
    def biased(model, *flags):
        return {name for name, (_, _, bias) in shapes(manifest(model, *flags)).items() if bias}
    assert biased("llama3-8b") == set()
    assert biased("qwen2.5-7b") == {"qkv"}
    assert biased("qwen3-8b") == set()
    assert biased("gpt-oss-20b") == {"qkv", "o", "router", "expert_gate_up", "expert_down"}
    # One rank of several adds the bias of what all of them sum.
    made = shapes(manifest("gpt-oss-20b", "--tp", 2))
    assert made["o"][:2] == made["o without bias"][:2] and made["o"][2] and not made["o without bias"][2], made


def test_head_and_form():
    made = manifest("llama3-70b", "--tp", 8, "--max-m", 4096, "--max-head-m", 64)
    head = [e for e in made["classes"] if e["name"].startswith("lm_head")]
    assert [e["op"] for e in head] == ["matmul", "matmul_argmax"], head
    for e in head:
        assert (e["n"], e["k"], e["m_max"], e["a"], e["trans_b"]) == (128256 // 8, 8192, 64, "bf16", 1), e
    assert head[1]["logits"] == "bf16" and head[1]["wants_values"] == 1, "shards are compared by their values"
    assert all(e["m_max"] == 4096 and e["d"] == "bf16" for e in made["classes"] if e not in head)
    assert made["about"] == {"family": "Llama", "tp": "8", "vocabulary": "128256 padded to 128256, 16032 a rank"}, made["about"]
    # 32000 to 192 * 167 = 32064, 5344 for each of six.
    config = json.loads((CONFIGS / "mistral-7b.json").read_text())
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "six.json"
        path.write_text(json.dumps(dict(config, num_attention_heads=48, num_key_value_heads=6, hidden_size=6144,
                                        intermediate_size=14400, vocab_size=32000)))
        out = pathlib.Path(directory) / "out.json"
        assert lathe(path, "--tp", 6, "--output", out).returncode == 0
        six = json.loads(out.read_text())
        assert shapes(six)["lm_head"][:2] == (5344, 6144), shapes(six)
        assert six["about"]["vocabulary"] == "32000 padded to 32064, 5344 a rank"
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
    assert "quantization_config" in lathe(CONFIGS / "deepseek-v3.json").stderr


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
        assert "cannot be split over 3 ranks" in refused(good, "--tp", 3)
        assert "--tp" in refused(good, "--tp", 0)
        # A dtype that is not known is asked for; of none that is said bf16 is taken, and said.
        odd = dict(good, torch_dtype="float8_e4m3fn")
        assert "torch_dtype 'float8_e4m3fn' is none of float32, float16, bfloat16; --dtype says" in refused(odd)
        assert lathe(path, "--dtype", "f16").stderr == ""
        assert "layers write bf16" in lathe(path, "--dtype", "f8e4m3").stderr
        path.write_text(json.dumps({k: v for k, v in good.items() if k != "torch_dtype"}))
        silent = lathe(path)
        assert silent.returncode == 0 and "has no torch_dtype that is known: layers write bf16" in silent.stderr, silent
        assert {e["a"] for e in json.loads(silent.stdout)["classes"]} == {"bf16"}
    assert lathe("/nowhere/config.json").returncode == 2


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
print("manifests agree with the models")
