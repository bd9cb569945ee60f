/* A program that calls BLAS and knows nothing of Lathe: one f32 product, one function of f64. */
#include <stdint.h>
#include <stdio.h>

void sgemm_(const char* transa, const char* transb, const int32_t* m, const int32_t* n, const int32_t* k,
            const float* alpha, const float* a, const int32_t* lda, const float* b, const int32_t* ldb,
            const float* beta, float* c, const int32_t* ldc, size_t length_a, size_t length_b);
double ddot_(const int32_t* n, const double* x, const int32_t* incx, const double* y, const int32_t* incy);

int main(void) {
  const int32_t two = 2, one = 1;
  const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8}, alpha = 1, beta = 0; /* by columns */
  const double x[] = {1, 2}, y[] = {3, 4};
  float c[4];
  sgemm_("N", "N", &two, &two, &two, &alpha, a, &two, b, &two, &beta, c, &two, 1, 1);
  const int right =
      c[0] == 23 && c[1] == 34 && c[2] == 31 && c[3] == 46 && ddot_(&two, x, &one, y, &one) == 11;
  puts(right ? "right" : "wrong");
  return right ? 0 : 1;
}
