"""Converts numbers of f32, f16, bf16, 8-bit floats and integers to bytes and back; rounds to nearest even."""
import math
import struct

SIZE = {"f32": 4, "f16": 2, "bf16": 2, "i32": 4, "i64": 8, "i8": 1, "f8e4m3": 1, "f8e5m2": 1,
        "f8e4m3fnuz": 1, "f8e5m2fnuz": 1}
MANTISSA = {"f32": 24, "f16": 11, "bf16": 8}
_FORMAT = {"f32": "f", "f16": "e", "i32": "i", "i64": "q", "i8": "b"}


def _bf16_bits(x):
    bits, = struct.unpack("<I", struct.pack("<f", x))
    if x != x:
        return bits >> 16 | 0x40
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _f8(bits, exponent_bits, bias, fnuz=False):
    """Decodes an 8-bit float: OCP, or FNUZ, which has no infinities and no -0, and 0x80 as its only NaN."""
    mantissa_bits = 7 - exponent_bits
    sign, exponent = -1 if bits & 0x80 else 1, bits >> mantissa_bits & (1 << exponent_bits) - 1
    mantissa = bits & (1 << mantissa_bits) - 1
    if fnuz and bits == 0x80:
        return math.nan
    if not fnuz and exponent_bits == 4 and bits & 0x7F == 0x7F:
        return math.nan
    if not fnuz and exponent_bits == 5 and exponent == 31:
        return math.nan if mantissa else sign * math.inf
    significand = mantissa / (1 << mantissa_bits) + (exponent > 0)
    return sign * significand * 2.0**(max(exponent, 1) - bias)


_F8 = {"f8e4m3": [_f8(bits, 4, 7) for bits in range(256)], "f8e5m2": [_f8(bits, 5, 15) for bits in range(256)],
       "f8e4m3fnuz": [_f8(bits, 4, 8, True) for bits in range(256)],
       "f8e5m2fnuz": [_f8(bits, 5, 16, True) for bits in range(256)]}


def f8_numbers(dtype):
    """All numbers of the type, in the order of their codes."""
    return [value for value in _F8[dtype] if math.isfinite(value)]


def _f8_bits(x, dtype):
    """The bits of a number that the type represents exactly."""
    if x != x:
        return 0x80 if dtype.endswith("fnuz") else 0x7F
    return next(bits for bits, value in enumerate(_F8[dtype])
                if value == x and math.copysign(1, value) == math.copysign(1, x))


def pack(values, dtype):
    if dtype in _F8:
        return bytes(_f8_bits(v, dtype) for v in values)
    if dtype == "bf16":
        return struct.pack(f"<{len(values)}H", *map(_bf16_bits, values))
    if dtype == "f16":  # struct refuses values that round to infinity
        values = [math.copysign(math.inf, v) if abs(v) >= 65520 else v for v in values]
    return struct.pack(f"<{len(values)}{_FORMAT[dtype]}", *values)


def unpack(data, dtype):
    if dtype in _F8:
        return [_F8[dtype][bits] for bits in data]
    count = len(data) // SIZE[dtype]
    if dtype == "bf16":
        return [struct.unpack("<f", struct.pack("<I", h << 16))[0] for h in struct.unpack(f"<{count}H", data)]
    return list(struct.unpack(f"<{count}{_FORMAT[dtype]}", data))


def rounded(values, dtype):
    return unpack(pack(values, dtype), dtype)
