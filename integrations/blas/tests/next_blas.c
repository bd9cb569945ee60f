/* A BLAS that counts its calls, for blas_test. Its products are plain loops over double. */
#include "next_blas.h"

#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))
EXPORT int next_calls = 0;

static float element(const float* a, int32_t ld, int trans, int64_t i, int64_t j) {
  return trans ? a[i * ld + j] : a[j * ld + i];
}
static int is_trans(char letter) { return letter != 'N' && letter != 'n'; }

EXPORT void sgemm_(const char* transa, const char* transb, const int32_t* m, const int32_t* n,
                   const int32_t* k, const float* alpha, const float* a, const int32_t* lda, const float* b,
                   const int32_t* ldb, const float* beta, float* c, const int32_t* ldc, size_t length_a,
                   size_t length_b) {
  ++next_calls;
  if (length_a != 1 || length_b != 1) abort();
  for (int64_t j = 0; j < *n; ++j)
    for (int64_t i = 0; i < *m; ++i) {
      double sum = 0;
      for (int64_t l = 0; l < *k; ++l)
        sum += (double)element(a, *lda, is_trans(*transa), i, l) * element(b, *ldb, is_trans(*transb), l, j);
      float* at = c + j * *ldc + i;
      *at = (float)(*alpha * sum + (*beta == 0 ? 0 : *beta * (double)*at));
    }
}

EXPORT void sgemv_(const char* trans, const int32_t* m, const int32_t* n, const float* alpha, const float* a,
                   const int32_t* lda, const float* x, const int32_t* incx, const float* beta, float* y,
                   const int32_t* incy, size_t length) {
  ++next_calls;
  if (length != 1 || *incx != 1 || *incy != 1) abort();
  const int t = is_trans(*trans);
  for (int64_t i = 0; i < (t ? *n : *m); ++i) {
    double sum = 0;
    for (int64_t l = 0; l < (t ? *m : *n); ++l) sum += (double)element(a, *lda, t, i, l) * x[l];
    y[i] = (float)(*alpha * sum + (*beta == 0 ? 0 : *beta * (double)y[i]));
  }
}

/* Forwarded functions. Each result depends on every argument, and together they use all argument registers, the stack,
 * and a result in a floating-point register. */
EXPORT double ddot_(const int32_t* n, const double* x, const int32_t* incx, const double* y,
                    const int32_t* incy) {
  ++next_calls;
  double sum = 0;
  for (int32_t i = 0; i < *n; ++i) sum += x[i * *incx] * y[i * *incy];
  return sum;
}

EXPORT void cblas_dgemm(int order, int transa, int transb, int32_t m, int32_t n, int32_t k, double alpha,
                        const double* a, int32_t lda, const double* b, int32_t ldb, double beta, double* c,
                        int32_t ldc) {
  ++next_calls;
  c[0] = order + 2 * transa + 3 * transb + 4 * m + 5 * n + 6 * k + 7 * alpha + 8 * a[0] + 9 * lda +
         10 * b[0] + 11 * ldb + 12 * beta + 13 * ldc;
}

EXPORT struct sums cblas_dgeadd(pair v0, pair v1, pair v2, pair v3, pair v4, pair v5, pair v6, pair v7,
                                int64_t x0, int64_t x1, int64_t x2, int64_t x3, int64_t x4, int64_t x5,
                                int64_t x6, int64_t x7, int64_t on_stack) {
  const pair v = v0 + v1 + v2 + v3 + v4 + v5 + v6 + v7;
  const struct sums sums = {{v[0], v[1]}, x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7, on_stack};
  return sums;
}
