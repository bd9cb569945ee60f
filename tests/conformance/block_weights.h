// Weights in block formats for the requests: random blocks, and the reference of products with A rounded to bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "numbers.h"
#include "reference/blocks.h"

namespace lathe::conformance {

enum class Values;

// Whether GPUs have kernels for the format.
bool is_on_gpus(lathe_dtype format);
// Why the device under test does not run the product, "" if it does: GPUs have kernels for a few formats, no generic
// ones, and none that round A to bytes, so one format stands for the others with LATHE_MATH_INT8.
std::string why_not_run(lathe_dtype format, lathe_math math);

// The elements of a matrix, K by N, row by row; and their terms (reference::BlockParts).
struct BlockTerms {
  std::vector<double> values, products, minima;
};
struct BlockMatrix {
  const reference::BlockFormat& format;
  int64_t k, n;
  std::function<uint8_t*(int64_t k, int64_t j)> at;  // the block of element (k, j)
};
// Fills the blocks and appends their terms. kSpecial: some scales are NaN, infinite or zero.
void draw_blocks(const BlockMatrix& matrix, Values values, Random* random, BlockTerms* terms);

// A (M by K, row by row) by a matrix of such terms.
struct BlockProduct {
  const reference::BlockFormat& format;
  int64_t m, n, k;
  const double *a, *products, *minima;
};
// The sums with A rounded to bytes as ggml's CPU backend rounds it on x86, and the sums of their terms' magnitudes.
void multiply_rounded(const BlockProduct& p, std::vector<double>* sums, std::vector<double>* magnitudes);
// The error of each sum that is allowed for rounding A to bytes in any way (h of matmul_case.h).
std::vector<double> error_of_rounding(const BlockProduct& p);

}  // namespace lathe::conformance
