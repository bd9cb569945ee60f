"""The weights of published models: (tensor, rows, columns, number of such tensors), named as in their checkpoints. The
sizes come from the public model code and the model's config.json, not from Lathe. If a checkpoint stores a
projection transposed (llama4's experts), rows are still outputs here. `billions` is the published number of parameters
of the language model, with multi-token prediction if the checkpoint has it. The products must add up to it.
"""


def model(billions, *tensors, biased=()):
    return {"billions": billions, "tensors": tensors, "biased": set(biased)}


def attention(layers, hidden, q, kv, prefix="self_attn"):
    return ((f"{prefix}.q_proj", q, hidden, layers), (f"{prefix}.k_proj", kv, hidden, layers),
            (f"{prefix}.v_proj", kv, hidden, layers))


def gated(prefix, layers, size, hidden):
    return ((f"{prefix}.gate_proj", size, hidden, layers), (f"{prefix}.up_proj", size, hidden, layers),
            (f"{prefix}.down_proj", hidden, size, layers))


# MLA with DeepSeek-V3's sizes. "absorbed" are the halves of kv_b_proj that decoding multiplies by, not separate
# tensors.
def latent(layers, heads):
    return (("self_attn.q_a_proj", 1536, 7168, layers), ("self_attn.q_b_proj", heads * 192, 1536, layers),
            ("self_attn.kv_a_proj_with_mqa", 576, 7168, layers), ("self_attn.kv_b_proj", heads * 256, 512, layers),
            ("self_attn.o_proj", 7168, heads * 128, layers),
            ("absorbed.k", 512, 128, 0), ("absorbed.v", 128, 512, 0))


MODELS = {
    "llama3-8b": model(
        8.03, *attention(32, 4096, 4096, 1024), ("self_attn.o_proj", 4096, 4096, 32),
        *gated("mlp", 32, 14336, 4096), ("embed_tokens", 128256, 4096, 1), ("lm_head", 128256, 4096, 1)),
    "mistral-7b": model(
        7.25, *attention(32, 4096, 4096, 1024), ("self_attn.o_proj", 4096, 4096, 32),
        *gated("mlp", 32, 14336, 4096), ("embed_tokens", 32768, 4096, 1), ("lm_head", 32768, 4096, 1)),
    "mixtral-8x7b": model(
        46.7, *attention(32, 4096, 4096, 1024), ("self_attn.o_proj", 4096, 4096, 32),
        ("block_sparse_moe.gate", 8, 4096, 32), *gated("block_sparse_moe.experts", 32 * 8, 14336, 4096),
        ("embed_tokens", 32000, 4096, 1), ("lm_head", 32000, 4096, 1)),
    "qwen2.5-7b": model(
        7.615, *attention(28, 3584, 3584, 512), ("self_attn.o_proj", 3584, 3584, 28),
        *gated("mlp", 28, 18944, 3584), ("embed_tokens", 152064, 3584, 1), ("lm_head", 152064, 3584, 1),
        biased=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
    "qwen2-57b-a14b": model(
        57.4, *attention(28, 3584, 3584, 512), ("self_attn.o_proj", 3584, 3584, 28),
        ("mlp.gate", 64, 3584, 28), *gated("mlp.experts", 28 * 64, 2560, 3584),
        *gated("mlp.shared_expert", 28, 20480, 3584), ("mlp.shared_expert_gate", 1, 3584, 28),
        ("embed_tokens", 151936, 3584, 1), ("lm_head", 151936, 3584, 1),
        biased=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
    "qwen3-8b": model(
        8.19, *attention(36, 4096, 4096, 1024), ("self_attn.o_proj", 4096, 4096, 36),
        *gated("mlp", 36, 12288, 4096), ("embed_tokens", 151936, 4096, 1), ("lm_head", 151936, 4096, 1)),
    "qwen3-30b-a3b": model(
        30.53, *attention(48, 2048, 4096, 512), ("self_attn.o_proj", 2048, 4096, 48),
        ("mlp.gate", 128, 2048, 48), *gated("mlp.experts", 48 * 128, 768, 2048),
        ("embed_tokens", 151936, 2048, 1), ("lm_head", 151936, 2048, 1)),
    "qwen3-vl-30b-a3b": model(
        30.53, *attention(48, 2048, 4096, 512), ("self_attn.o_proj", 2048, 4096, 48),
        ("mlp.gate", 128, 2048, 48), *gated("mlp.experts", 48 * 128, 768, 2048),
        ("embed_tokens", 151936, 2048, 1), ("lm_head", 151936, 2048, 1)),
    # Every fourth of 48 layers has full attention; its query projection also gives the gate of the output. The layer
    # for multi-token prediction adds one, so 13 layers have full attention and 49 have experts.
    "qwen3-next-80b-a3b": model(
        81.3, *attention(13, 2048, 8192, 512), ("self_attn.o_proj", 2048, 4096, 13),
        ("linear_attn.in_proj_qkvz", 12288, 2048, 36), ("linear_attn.in_proj_ba", 64, 2048, 36),
        ("linear_attn.out_proj", 2048, 4096, 36),
        ("mlp.gate", 512, 2048, 49), *gated("mlp.experts", 49 * 512, 512, 2048),
        *gated("mlp.shared_expert", 49, 512, 2048), ("mlp.shared_expert_gate", 1, 2048, 49),
        ("mtp.fc", 2048, 4096, 1), ("embed_tokens", 151936, 2048, 1), ("lm_head", 151936, 2048, 1)),
    "gemma-7b": model(
        8.54, *attention(28, 3072, 4096, 4096), ("self_attn.o_proj", 3072, 4096, 28),
        *gated("mlp", 28, 24576, 3072), ("lm_head", 256000, 3072, 1)),
    "gemma2-9b": model(
        9.24, *attention(42, 3584, 4096, 2048), ("self_attn.o_proj", 3584, 4096, 42),
        *gated("mlp", 42, 14336, 3584), ("lm_head", 256000, 3584, 1)),
    "gemma3-4b": model(
        3.88, *attention(34, 2560, 2048, 1024), ("self_attn.o_proj", 2560, 2048, 34),
        *gated("mlp", 34, 10240, 2560), ("lm_head", 262208, 2560, 1)),
    "deepseek-v2-lite": model(
        15.7, ("self_attn.q_proj", 3072, 2048, 27), ("self_attn.kv_a_proj_with_mqa", 576, 2048, 27),
        ("self_attn.kv_b_proj", 4096, 512, 27), ("self_attn.o_proj", 2048, 2048, 27),
        ("absorbed.k", 512, 128, 0), ("absorbed.v", 128, 512, 0),
        *gated("mlp", 1, 10944, 2048), ("mlp.gate", 64, 2048, 26), *gated("mlp.experts", 26 * 64, 1408, 2048),
        *gated("mlp.shared_experts", 26, 2816, 2048), ("embed_tokens", 102400, 2048, 1), ("lm_head", 102400, 2048, 1)),
    # 61 layers, and one for multi-token prediction with a copy of the embedding and the head.
    "deepseek-v3": model(
        684.5, *latent(62, 128), *gated("mlp", 3, 18432, 7168), ("mlp.gate", 256, 7168, 59),
        *gated("mlp.experts", 59 * 256, 2048, 7168), *gated("mlp.shared_experts", 59, 2048, 7168),
        ("eh_proj", 7168, 14336, 1), ("embed_tokens", 129280, 7168, 2), ("lm_head", 129280, 7168, 2)),
    "deepseek-v3.2": model(
        685.4, *latent(62, 128), ("indexer.wq_b", 8192, 1536, 62), ("indexer.wk", 128, 7168, 62),
        ("indexer.weights_proj", 64, 7168, 62),
        *gated("mlp", 3, 18432, 7168), ("mlp.gate", 256, 7168, 59),
        *gated("mlp.experts", 59 * 256, 2048, 7168), *gated("mlp.shared_experts", 59, 2048, 7168),
        ("eh_proj", 7168, 14336, 1), ("embed_tokens", 129280, 7168, 2), ("lm_head", 129280, 7168, 2)),
    "kimi-k2": model(
        1026.5, *latent(61, 64), *gated("mlp", 1, 18432, 7168), ("mlp.gate", 384, 7168, 60),
        *gated("mlp.experts", 60 * 384, 2048, 7168), *gated("mlp.shared_experts", 60, 2048, 7168),
        ("embed_tokens", 163840, 7168, 1), ("lm_head", 163840, 7168, 1)),
    # Every second of 48 layers has experts.
    "llama4-maverick": model(
        400.7, *attention(48, 5120, 5120, 1024), ("self_attn.o_proj", 5120, 5120, 48),
        *gated("feed_forward", 24, 16384, 5120), ("feed_forward.router", 128, 5120, 24),
        ("feed_forward.experts.gate_up_proj", 16384, 5120, 24 * 128),
        ("feed_forward.experts.down_proj", 5120, 8192, 24 * 128),
        *gated("feed_forward.shared_expert", 24, 8192, 5120),
        ("embed_tokens", 202048, 5120, 1), ("lm_head", 202048, 5120, 1)),
    # 46 layers, and one for multi-token prediction with a copy of the embedding and the head.
    "glm4.5-air": model(
        110.5, *attention(47, 4096, 12288, 1024), ("self_attn.o_proj", 4096, 12288, 47),
        *gated("mlp", 1, 10944, 4096), ("mlp.gate", 128, 4096, 46), *gated("mlp.experts", 46 * 128, 1408, 4096),
        *gated("mlp.shared_experts", 46, 1408, 4096), ("eh_proj", 4096, 8192, 1),
        ("embed_tokens", 151552, 4096, 2), ("lm_head", 151552, 4096, 2),
        biased=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
    "gpt-oss-20b": model(
        20.9, *attention(24, 2880, 4096, 512), ("self_attn.o_proj", 2880, 4096, 24), ("mlp.router", 32, 2880, 24),
        ("mlp.experts.gate_up_proj", 5760, 2880, 24 * 32), ("mlp.experts.down_proj", 2880, 2880, 24 * 32),
        ("embed_tokens", 201088, 2880, 1), ("lm_head", 201088, 2880, 1),
        biased=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.router",
                "mlp.experts.gate_up_proj", "mlp.experts.down_proj")),
    "phi3-mini": model(
        3.82, ("self_attn.qkv_proj", 9216, 3072, 32), ("self_attn.o_proj", 3072, 3072, 32),
        ("mlp.gate_up_proj", 16384, 3072, 32), ("mlp.down_proj", 3072, 8192, 32),
        ("embed_tokens", 32064, 3072, 1), ("lm_head", 32064, 3072, 1)),
    "minimax-m2": model(
        228.7, *attention(62, 3072, 6144, 1024), ("self_attn.o_proj", 3072, 6144, 62),
        ("block_sparse_moe.gate", 256, 3072, 62), *gated("block_sparse_moe.experts", 62 * 256, 1536, 3072),
        ("embed_tokens", 200064, 3072, 1), ("lm_head", 200064, 3072, 1)),
    "hunyuan-a13b": model(
        80.4, *attention(32, 4096, 4096, 1024), ("self_attn.o_proj", 4096, 4096, 32),
        ("mlp.gate.wg", 64, 4096, 32), *gated("mlp.experts", 32 * 64, 3072, 4096),
        *gated("mlp.shared_mlp", 32, 3072, 4096), ("lm_head", 128167, 4096, 1)),
    "minitron-4b": model(
        4.19, *attention(32, 3072, 3072, 1024), ("self_attn.o_proj", 3072, 3072, 32),
        ("mlp.up_proj", 9216, 3072, 32), ("mlp.down_proj", 3072, 9216, 32),
        ("embed_tokens", 256000, 3072, 1), ("lm_head", 256000, 3072, 1)),
}

# Weights that engines fuse into one matmul.
FUSED = (("q_proj", "k_proj", "v_proj"), ("q_a_proj", "kv_a_proj_with_mqa"), ("gate_proj", "up_proj"))


def products(weights):
    """{(n, k, has a bias)} of the model on one rank. Fused tensors count as one."""
    groups = {}
    for tensor, rows, columns, _ in weights["tensors"]:
        prefix, _, leaf = tensor.rpartition(".")
        groups.setdefault(prefix, {})[leaf] = (rows, columns, tensor in weights["biased"])
    found = set()
    for group in groups.values():
        for together in FUSED:
            if all(leaf in group for leaf in together):
                parts = [group.pop(leaf) for leaf in together]
                found.add((sum(rows for rows, _, _ in parts), parts[0][1], parts[0][2]))
        found.update(shape for leaf, shape in group.items() if leaf != "embed_tokens")
    return found
