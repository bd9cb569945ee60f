// What the "xegpu" candidates and emitter share: the sizes of dpas and the limits of block loads on Intel's
// Xe-HPC and Xe2 (OpenCL extensions cl_intel_subgroup_matrix_multiply_accumulate and
// cl_intel_subgroup_2d_block_io).
#pragma once

#include <cstdint>

namespace lathe {

struct XegpuShape {
  static constexpr int32_t kLanes = 16;                            // of a subgroup
  static constexpr int32_t kRows = 8, kColumns = 16, kDepth = 16;  // of dpas on 16-bit operands
  // Block loads: alignment of the operand's address; limits of a row's bytes, which must be a multiple of 4.
  static constexpr int32_t kBaseAlignment = 64, kLeastRowBytes = 64, kMostRowBytes = 1 << 24;
  // Splits of K are multiples of this, because a row shorter than kLeastRowBytes cannot be loaded.
  static constexpr int32_t kSplitMultiple = kLeastRowBytes / 2;
};

}  // namespace lathe
