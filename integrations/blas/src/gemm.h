// One call of a gemm, in the Fortran form: every matrix is stored column by column.
#pragma once

#include <lathe/lathe.h>

#include <cstdint>

#include "product.h"

namespace lathe_blas {

struct Gemm {
  lathe_dtype dtype = LATHE_F32;  // of A and B
  int transa = 0, transb = 0;     // 1: transposed; -1: no legal value
  int32_t m = 0, n = 0, k = 0;
  float alpha = 0;
  const void* a = nullptr;
  int32_t lda = 0;
  const void* b = nullptr;
  int32_t ldb = 0;
  float beta = 0;
  float* c = nullptr;
  int32_t ldc = 0;
  int32_t batch = 1;
  int64_t a_stride = 0, b_stride = 0, c_stride = 0;
};

// 0, 1 or -1 for a letter of the Fortran form or a value of CBLAS. A real matrix has no conjugate: C is T.
int transposition_of(char letter);
int transposition_of(int cblas);
// The same product with C, A and B read row by row: A and B change places, and so do M and N.
Gemm swapped(const Gemm& gemm);

// The first illegal argument, by its position in the Fortran form of sgemm; 0: none.
int illegal_parameter(const Gemm& gemm);
// The same by its position in CBLAS' form.
int illegal_cblas_parameter(int order, const Gemm& as_called);

// Runs a legal product of f32 on Lathe or on the next BLAS. `batch` must be 1.
void run_sgemm(const Gemm& gemm);

// The parts of run_sgemm, for the other forms.
// Whether the product needs no A and B: it is empty, alpha is 0, or K is 0. Then C = beta C is done.
bool run_without_product(const Gemm& gemm);
// Runs a legal product on Lathe. False: Lathe did not take it, and C is unchanged.
bool run_on_lathe(const Gemm& gemm, Alternative alternative);

}  // namespace lathe_blas
