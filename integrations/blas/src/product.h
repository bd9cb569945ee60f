// A product on Lathe: D (m by n) = alpha A B + beta D, row-major.
#pragma once

#include <lathe/lathe.h>

#include <cstdint>

namespace lathe_blas {

struct Matrix {
  const void* data;
  int64_t leading_dimension;
  bool transposed;  // stored column by column
};

struct Product {
  int64_t m, n, k;
  lathe_dtype dtype;  // of A and B
  Matrix a, b;
  float* d;
  int64_t ldd;
  float alpha, beta;
  int64_t batch = 1;
  int64_t a_stride = 0, b_stride = 0, d_stride = 0;  // elements between the matrices of a batch
};

// The next BLAS can serve the same product, so Lathe takes it only if that is a gain. Otherwise Lathe takes everything.
enum class Alternative { kNext, kNone };

// Runs the product on Lathe. False: Lathe did not take it, and D is unchanged.
bool run_product(const Product& product, Alternative alternative);

// Counts of this process, for LATHE_BLAS_VERBOSE=1.
enum class Outcome { kLathe, kSmall, kMiss, kRefused };
void count(Outcome outcome);

}  // namespace lathe_blas
