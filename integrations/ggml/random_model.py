"""Writes a GGUF file with random weights in the shapes of a real model, to measure speed without a download.

usage: random_model.py SHAPE FORMAT FILE
SHAPE: llama-3.2-1b; llama-3-8b-4-layers (4 of the 32 layers); larger-than-memory (as many layers of Llama-3-8B as fill
twice this machine's memory; the weights are not written, so the file takes no space). FORMAT, of every matrix: f32,
f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q4_k or q6_k. Needs the packages gguf and numpy. The tokens are single bytes
and names without a meaning, so the model writes nonsense.
"""
import dataclasses
import os
import sys

import gguf
import numpy

VOCABULARY = 128256
DISTINCT_ROWS = 1024  # of a matrix; they repeat after that, which saves time and changes no speed


@dataclasses.dataclass
class Shape:
    layers: int
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    own_head: bool  # the LM head is a matrix of its own, not that of the embeddings
    written: bool = True  # else the file has a hole where the weights would be


SHAPES = {"llama-3.2-1b": Shape(16, 2048, 8192, 32, 8, False),
          "llama-3-8b-4-layers": Shape(4, 4096, 14336, 32, 8, True)}


def larger_than_memory(kind):
    shape = dataclasses.replace(SHAPES["llama-3-8b-4-layers"], written=False)
    per_block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    layer_bytes = sum(rows * columns for name, rows, columns in tensors_of(shape) if "blk.0." in name) \
        // per_block * block_bytes
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return dataclasses.replace(shape, layers=2 * memory // layer_bytes)


def tensors_of(shape):
    """(name, rows, columns) in the order of the file; a vector has 0 rows."""
    kv_width = shape.width // shape.heads * shape.kv_heads
    yield "token_embd", VOCABULARY, shape.width
    for i in range(shape.layers):
        for name, rows, columns in (
                ("attn_norm", 0, shape.width), ("attn_q", shape.width, shape.width), ("attn_k", kv_width, shape.width),
                ("attn_v", kv_width, shape.width), ("attn_output", shape.width, shape.width),
                ("ffn_norm", 0, shape.width), ("ffn_gate", shape.feed_forward, shape.width),
                ("ffn_up", shape.feed_forward, shape.width), ("ffn_down", shape.width, shape.feed_forward)):
            yield f"blk.{i}.{name}", rows, columns
    yield "output_norm", 0, shape.width
    if shape.own_head:
        yield "output", VOCABULARY, shape.width


def scales(random, rows, blocks):
    """f16 numbers as pairs of bytes."""
    return random.uniform(1e-4, 2e-4, (rows, blocks, 1)).astype(numpy.float16).view(numpy.uint8)


def random_k_blocks(random, kind, rows, columns):
    """Random bytes are valid blocks of the K formats if the f16 scales are numbers."""
    size = gguf.GGML_QUANT_SIZES[kind][1]
    blocks = random.integers(0, 256, (rows, columns // 256, size), dtype=numpy.uint8)
    if kind == gguf.GGMLQuantizationType.Q4_K:
        blocks[:, :, 0:2] = scales(random, rows, columns // 256)
        blocks[:, :, 2:4] = scales(random, rows, columns // 256)
    else:
        blocks[:, :, size - 2:] = scales(random, rows, columns // 256)
    return blocks.reshape(rows, -1)


def random_matrix(random, kind, rows, columns):
    """The bytes of the rows."""
    distinct = min(rows, DISTINCT_ROWS)
    if kind in (gguf.GGMLQuantizationType.Q4_K, gguf.GGMLQuantizationType.Q6_K):
        found = random_k_blocks(random, kind, distinct, columns)
    else:
        values = 0.02 * random.standard_normal((distinct, columns), dtype=numpy.float32)
        found = gguf.quants.quantize(values, kind).view(numpy.uint8)
    return numpy.resize(found, (rows, found.shape[1]))


def add_tokens(writer):
    texts = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    kinds = [gguf.TokenType.UNKNOWN] + 2 * [gguf.TokenType.CONTROL] + 256 * [gguf.TokenType.BYTE]
    texts += [f"token{i}" for i in range(len(texts), VOCABULARY)]
    kinds += (VOCABULARY - len(kinds)) * [gguf.TokenType.NORMAL]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(texts)
    writer.add_token_scores(VOCABULARY * [0.0])
    writer.add_token_types([int(kind) for kind in kinds])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def add_header(writer, shape):
    writer.add_block_count(shape.layers)
    writer.add_context_length(8192)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_freq_base(500000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    add_tokens(writer)


def write(shape, kind, path):
    writer = gguf.GGUFWriter(path, "llama")
    add_header(writer, shape)
    all_tensors = list(tensors_of(shape))
    for name, rows, columns in all_tensors:
        of = kind if rows else gguf.GGMLQuantizationType.F32
        per_block, block_bytes = gguf.GGML_QUANT_SIZES[of]
        row_bytes = columns // per_block * block_bytes
        writer.add_tensor_info(name + ".weight", (rows, row_bytes) if rows else (row_bytes,), numpy.dtype(numpy.uint8),
                               max(rows, 1) * row_bytes, of)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    if not shape.written:
        hole = sum(gguf.GGUFWriter.ggml_pad(tensor.nbytes, writer.data_alignment)
                   for tensor in writer.tensors[0].values())
        start = gguf.GGUFWriter.ggml_pad(writer.fout[0].tell(), writer.data_alignment)
        writer.close()
        os.truncate(path, start + hole)
        return
    random = numpy.random.default_rng(7)
    for _, rows, columns in all_tensors:
        writer.write_tensor_data(random_matrix(random, kind, rows, columns) if rows else
                                 numpy.ones(columns, numpy.float32))
    writer.close()


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in (*SHAPES, "larger-than-memory"):
        sys.exit(__doc__)
    try:
        kind = gguf.GGMLQuantizationType[sys.argv[2].upper()]
    except KeyError:
        sys.exit(f"no such format: {sys.argv[2]}\n\n{__doc__}")
    write(SHAPES.get(sys.argv[1]) or larger_than_memory(kind), kind, sys.argv[3])


main()
