"""Numbers of f32, f16, bf16, i32 and i64 as bytes and back; rounding to nearest even."""
import math
import struct

SIZE = {"f32": 4, "f16": 2, "bf16": 2, "i32": 4, "i64": 8}
MANTISSA = {"f32": 24, "f16": 11, "bf16": 8}
_FORMAT = {"f32": "f", "f16": "e", "i32": "i", "i64": "q"}


def _bf16_bits(x):
    bits, = struct.unpack("<I", struct.pack("<f", x))
    if x != x:
        return bits >> 16 | 0x40
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def pack(values, dtype):
    if dtype == "bf16":
        return struct.pack(f"<{len(values)}H", *map(_bf16_bits, values))
    if dtype == "f16":  # struct refuses what rounds to infinity
        values = [math.copysign(math.inf, v) if abs(v) >= 65520 else v for v in values]
    return struct.pack(f"<{len(values)}{_FORMAT[dtype]}", *values)


def unpack(data, dtype):
    count = len(data) // SIZE[dtype]
    if dtype == "bf16":
        return [struct.unpack("<f", struct.pack("<I", h << 16))[0] for h in struct.unpack(f"<{count}H", data)]
    return list(struct.unpack(f"<{count}{_FORMAT[dtype]}", data))


def rounded(values, dtype):
    return unpack(pack(values, dtype), dtype)
