/* The argument block as a kernel sees it, written by hand, so that a change of src/core/args.h alone fails
 * these tests. */
#pragma once

typedef long long i64;

typedef struct {
  void *a, *b, *c, *d, *bias, *residual, *values, *workspace, *counters, *scratch, *scale_a, *scale_b,
      *zero_a, *zero_b;
  i64 lda, ldb, ldc, ldd, ldr, stride_a, stride_b, stride_c, stride_d, stride_r, index_offset, form;
  int m, n, k, batch, splits, k_chunk;
  float alpha, beta;
} block;
