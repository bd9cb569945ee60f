/* The jumps to the next BLAS: every argument and the result arrive, at a function's first call, which looks it up, and
 * at later ones. Needs no other library of Lathe's build, so it also runs where only a cross compiler and an emulator
 * are. LATHE_BLAS_NEXT names the library of next_blas.c. */
#include <pthread.h>
#include <stdio.h>

#include "next_blas.h"

double ddot_(const int32_t* n, const double* x, const int32_t* incx, const double* y, const int32_t* incy);
void cblas_dgemm(int order, int transa, int transb, int32_t m, int32_t n, int32_t k, double alpha,
                 const double* a, int32_t lda, const double* b, int32_t ldb, double beta, double* c,
                 int32_t ldc);

static int failures = 0;
static void expect(const char* what, double got, double wanted) {
  if (got == wanted) return;
  printf("%s is %g instead of %g\n", what, got, wanted);
  __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
}

static void call_every_register(void) {
  const pair one = {1, 0.5};
  const struct sums s = cblas_dgeadd(one, one * 2, one * 4, one * 8, one * 16, one * 32, one * 64, one * 128,
                                     1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 7);
  expect("the sum of the vectors' first halves", s.vectors[0], 255);
  expect("the sum of their second halves", s.vectors[1], 127.5);
  expect("the sum of the integers", (double)s.integers, 11111111);
  expect("the argument on the stack", (double)s.stack, 7);
}

static void* call_all(void* unused) {
  const double x[] = {1, 2, 3}, y[] = {4, 5, 6}, a = 7, b = 8;
  const int32_t three = 3, one = 1;
  double c = 0;
  for (int round = 0; round < 2; ++round) {
    call_every_register();
    expect("ddot", ddot_(&three, x, &one, y, &one), 32);
    cblas_dgemm(1, 2, 3, 4, 5, 6, 0.25, &a, 9, &b, 10, 0.5, &c, 11);
    expect("dgemm", c,
           1 + 4 + 9 + 16 + 25 + 36 + 7 * 0.25 + 8 * 7 + 9 * 9 + 10 * 8 + 11 * 10 + 12 * 0.5 + 13 * 11);
  }
  return unused;
}

int main(void) {
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i)
    if (pthread_create(&threads[i], NULL, call_all, NULL) != 0) return 1;
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  printf("%d failures\n", failures);
  return failures != 0;
}
