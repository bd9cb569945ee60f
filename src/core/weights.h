// Weights of another dtype than the activations they multiply, and what may stand in for products in f32.
#pragma once

#include "base/dtype.h"

namespace lathe {

// B of f16 or bf16 by A of f32: the CPU's kernels widen B as they read it, and are else those of f32 by f32.
constexpr bool widens_b(DType a, DType b) {
  return a == DType::kF32 && (b == DType::kF16 || b == DType::kBF16);
}

// Whether `math` says something of products of such operands.
constexpr bool names_dtypes(Math math, DType a, DType b) {
  switch (math) {
    case Math::kStrict: return true;
    case Math::kTf32: return a == DType::kF32 && b == DType::kF32;
    case Math::kInt8: return is_blocks(b);
    case Math::kBf16: return a == DType::kF32 && b == DType::kBF16;
  }
  return false;
}

}  // namespace lathe
