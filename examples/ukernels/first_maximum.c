// A ukernel of argmax: the column of a row's first maximum, a NaN over everything, and the first of them. The
// row may lie at any address, and has a column at least.
#include <stdint.h>

uint32_t first_maximum(const void* row, int64_t columns) {
  const float* x = row;
  uint32_t best = 0;
  for (int64_t i = 0; i < columns; ++i) {
    if (x[i] != x[i]) return (uint32_t)i;
    if (x[i] > x[best]) best = (uint32_t)i;
  }
  return best;
}
