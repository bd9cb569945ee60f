// What the "xegpu" kernels and their candidates agree on: the matrix instruction and the block loads of
// Intel's Xe-HPC and Xe2, as cl_intel_subgroup_matrix_multiply_accumulate and cl_intel_subgroup_2d_block_io
// have them.
#pragma once

#include <cstdint>

namespace lathe {

struct XegpuShape {
  static constexpr int32_t kLanes = 16;                            // of a subgroup
  static constexpr int32_t kRows = 8, kColumns = 16, kDepth = 16;  // of dpas on 16-bit operands
  // Block loads: where the operand begins in memory; bytes of its rows, which are a multiple of 4 too.
  static constexpr int32_t kBaseAlignment = 64, kLeastRowBytes = 64, kMostRowBytes = 1 << 24;
  // A split of K ends where rows of so many elements (kLeastRowBytes) may.
  static constexpr int32_t kSplitMultiple = kLeastRowBytes / 2;
};

}  // namespace lathe
