/* A forwarded function of next_blas.c. The library's jumps do not know signatures, so this one has a signature of its
 * own: it uses every argument register of x86-64 and AArch64, the stack, and a result in memory. */
#include <stdint.h>

typedef double pair __attribute__((vector_size(16)));
struct sums {
  double vectors[2];
  int64_t integers, stack;
};

struct sums cblas_dgeadd(pair v0, pair v1, pair v2, pair v3, pair v4, pair v5, pair v6, pair v7, int64_t x0,
                         int64_t x1, int64_t x2, int64_t x3, int64_t x4, int64_t x5, int64_t x6, int64_t x7,
                         int64_t on_stack);
