// Weights of another dtype than the activations they multiply.
#pragma once

#include "base/dtype.h"

namespace lathe {

// B of f16 or bf16 by A of f32: the CPU's kernels widen B as they read it, and are else those of f32 by f32.
constexpr bool widens_b(DType a, DType b) {
  return a == DType::kF32 && (b == DType::kF16 || b == DType::kBF16);
}

}  // namespace lathe
