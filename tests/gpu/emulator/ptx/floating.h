// The floating-point operations that share an instruction name with integer operations (add, mul, min, ...).
#pragma once

#include "tests/gpu/emulator/ptx/decoder.h"

namespace lathe::ptx {

enum class FloatOp : uint8_t { add, sub, mul, div, min, max, abs, neg, fma };

// A scalar float or a packed pair of floats.
inline bool is_floating(Type t) {
  return is_float(t) || t == Type::f16x2 || t == Type::bf16x2 || t == Type::f32x2;
}
void decode_float_unary(Decoder& d, FloatOp op, Type type);
void decode_float_binary(Decoder& d, FloatOp op, Type type);
void decode_float_ternary(Decoder& d, Type type);

// Replaces a denormal number by a zero of the same sign (.ftz).
float flush(float value);

}  // namespace lathe::ptx
