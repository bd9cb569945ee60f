#!/usr/bin/env python3
"""Writes gguf_blocks.txt: blocks of every block format, and the values that PyPI's gguf package gives them.

    pip install gguf && python3 tests/reference/make_gguf_blocks.py > tests/reference/gguf_blocks.txt

A line is the format's name, the bytes of a block and the bits of its f32 values, in hexadecimal. Codes and the scales
of groups are random. The f16 scales are in turn random, zero, subnormal, infinite and NaN; for mxfp4 the scale's byte is
random, 0, 1, 2, 254 and 255. All NaN are written as 7fc00000.
"""
import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize
from gguf.constants import GGML_QUANT_SIZES

# The offsets of the f16 scales in a block.
SCALES = {"Q4_0": [0], "Q8_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2],
          "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": []}
# Random; 0 and -0; subnormal; infinite; NaN.
HALVES = [(0x2e66, 0xb1c3), (0xac01, 0x3555), (0x0000, 0x8000), (0x0003, 0x83ff), (0x7c00, 0x3c00), (0x2c00, 0xfc00),
          (0x7e01, 0x3c00)]
POWERS = [0x7b, 0x85, 0x00, 0x01, 0x02, 0xfe, 0xff]


def main():
    random = np.random.default_rng(35)
    for name, offsets in SCALES.items():
        kind = GGMLQuantizationType[name]
        _, size = GGML_QUANT_SIZES[kind]
        for halves, power in zip(HALVES, POWERS):
            block = random.integers(0, 256, size, dtype=np.uint8)
            for offset, half in zip(offsets, halves):
                block[offset:offset + 2] = np.array([half], dtype="<u2").view(np.uint8)
            if not offsets:
                block[0] = power
            with np.errstate(all="ignore"):
                values = dequantize(block, kind).astype("<f4")
            bits = np.where(np.isnan(values), np.uint32(0x7FC00000), values.view("<u4"))
            print(name.lower(), block.tobytes().hex(), "".join(f"{x:08x}" for x in bits.ravel()))


if __name__ == "__main__":
    main()
