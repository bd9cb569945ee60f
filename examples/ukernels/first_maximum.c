// A ukernel for argmax on the CPU: returns the column of the row's first maximum. A NaN counts as the maximum,
// and the first NaN wins. The row may have any alignment and has at least one column.
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
