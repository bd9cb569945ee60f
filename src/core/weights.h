// Which weight dtypes may differ from the activation dtype, and which Math applies to which dtypes.
#pragma once

#include "base/dtype.h"

namespace lathe {

// Whether A is f32 and B is f16 or bf16. CPU kernels convert such a B to f32 when they load it, and otherwise
// work as for an f32 B.
constexpr bool widens_b(DType a, DType b) {
  return a == DType::kF32 && (b == DType::kF16 || b == DType::kBF16);
}

// Whether `math` applies to products of these dtypes. kStrict applies to all.
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
