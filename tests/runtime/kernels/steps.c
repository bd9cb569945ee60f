/* Kernels that record how they were launched. a: counters of the first step; b: counters of the second step;
 * c: one counter of errors; lda: tasks of the first step; ldb: bytes of scratch. */
#include "block.h"

static void error(const block* x) { __atomic_fetch_add((i64*)x->c, 1, __ATOMIC_RELAXED); }

void nothing(const block* x, i64 task) {
  (void)x;
  (void)task;
}

/* Counts itself, and checks that no other task writes to its scratch meanwhile. */
void first(const block* x, i64 task) {
  __atomic_fetch_add(&((i64*)x->a)[task], 1, __ATOMIC_RELAXED);
  volatile unsigned char* scratch = x->scratch;
  if (((unsigned long)scratch & 63) != 0) error(x);
  for (i64 i = 0; i < x->ldb; ++i) scratch[i] = (unsigned char)(task + i);
  for (volatile int spin = 0; spin < 200; ++spin) {
  }
  for (i64 i = 0; i < x->ldb; ++i)
    if (scratch[i] != (unsigned char)(task + i)) error(x);
}

/* Checks that every task of `first` has run. */
void second(const block* x, i64 task) {
  for (i64 i = 0; i < x->lda; ++i)
    if (__atomic_load_n(&((i64*)x->a)[i], __ATOMIC_RELAXED) != 1) error(x);
  __atomic_fetch_add(&((i64*)x->b)[task], 1, __ATOMIC_RELAXED);
}

/* Split and merge through the shared workspace: d[0] = sum over tasks of (task + 1) * m. */
void partial(const block* x, i64 task) { ((i64*)x->workspace)[task] = (task + 1) * x->m; }
void merge(const block* x, i64 task) {
  i64 sum = 0;
  for (i64 i = 0; i < x->lda; ++i) sum += ((i64*)x->workspace)[i];
  ((i64*)x->d)[task] = sum;
}

/* Stores the pointers that the driver sets. */
void report_memory(const block* x, i64 task) {
  void** out = (void**)x->a + 4 * task;
  out[0] = x->workspace;
  out[1] = x->counters;
  out[2] = x->scratch;
}
