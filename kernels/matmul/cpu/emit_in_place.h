// "direct" and "direct_a": the loop over K by rows of A where they lie, and what it fetches meanwhile.
#pragma once

#include "kernels/matmul/cpu/emit.h"

namespace lathe::emit {

// A line's elements, or the vector's where it takes more, and its words.
int64_t line_elements(const CpuTile& t);
int64_t line_words(const CpuTile& t);

// Who prefetches the rows of A in place that come next: pass number `pass` over the current rows does its
// share, one of `passes`. Null: nothing is prefetched here. With several passes, `beside` runs with every line of a
// share; lines are numbered from 0 on.
struct Fetching {
  Value pass;
  int64_t passes = 1;
  std::function<void(Value line)> beside;
};

// Words of packing memory for the addresses of the lines to prefetch.
int64_t next_line_words(const CpuTile& t);

// Stores, from `behind` on in the packing memory, the addresses of the lines that steps_in_place prefetches
// while it multiplies rows i.. of K block k0: the next rows, and after the last rows the first rows of the
// next K block. If a line lasts more iterations than there are rows, the rest prefetches the operand that
// will be packed for the next K block.
void store_next_lines(Emit& e, const CpuTile& t, int64_t behind, Value i, Value k0);

// Runs `step` for every word of K of rows in place. Each iteration (of unroll_k steps) prefetches one line:
// of each row in turn, for as many iterations as a line lasts. If several passes share the prefetching,
// each takes its part of K. With two chains, words of even and of odd K have sums of their own, which are
// added at the end.
Values steps_in_place(Emit& e, const CpuTile& t, const Fetching& fetching, int64_t behind, Value depth,
                      Values sums, const std::function<Values(Value, const Values&)>& step);

}  // namespace lathe::emit
