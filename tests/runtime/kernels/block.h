/* The argument block as a kernel sees it, written by hand, so that a change of src/core/args.h alone fails
 * these tests. */
#pragma once

typedef long long i64;

typedef struct {
  void *a, *b, *c, *d, *bias, *residual, *values, *workspace, *counters, *scratch, *scale_a, *scale_b,
      *zero_a, *zero_b;
  i64 lda, ldb, ldc, ldd, ldr, stride_a, stride_b, stride_c, stride_d, stride_r, index_offset, form;
  i64 scale_a_matrix, scale_a_line128, scale_a_line32, scale_a_line, scale_a_block16, scale_a_block4,
      scale_a_block;
  i64 scale_b_matrix, scale_b_line128, scale_b_line32, scale_b_line, scale_b_block16, scale_b_block4,
      scale_b_block, scale_b_first, scale_b_step;
  int m, n, k, batch, splits, k_chunk;
  float alpha, beta;
} block;
