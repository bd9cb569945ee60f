// "direct" and "direct_a": the loop over K by rows of A where they lie, and what it fetches meanwhile.
#pragma once

#include "kernels/matmul/cpu/emit.h"

namespace lathe::emit {

// A line's elements, or the vector's where it takes more, and its words.
int64_t line_elements(const CpuTile& t);
int64_t line_words(const CpuTile& t);

// Who fetches the rows of A in place that come next: pass `pass` over the rows that are read, its part of
// `passes`. Null: nobody does here.
struct Fetching {
  Value pass;
  int64_t passes = 1;
};

// Words of packing memory for the addresses of lines that come next.
int64_t next_line_words(const CpuTile& t);

// Stores where the lines begin that steps_in_place fetches of rows i.. and block k0 of K, from `behind` on in
// packing memory: those of the rows after them, after the last ones of the first in the next block; and,
// where a line's turns leave some, the next block's lines of what is packed, so that they are in L2 when it
// is packed (123 x 456 x 51234 on Zen 5 packs a line of them in 5 cycles, in 12 from memory).
void store_next_lines(Emit& e, const CpuTile& t, int64_t behind, Value i, Value k0);

// Runs `step` for every word of K of rows in place. Of what comes next a line is fetched with every step (or
// two, of few sums; of several passes, as many times as many), row by row, as many lines as rows for the
// steps that a line lasts. Of few sums there are two for the words of even and of odd places, which are added
// at the end: one chain each would wait for itself.
Values steps_in_place(Emit& e, const CpuTile& t, const Fetching& fetching, int64_t behind, Value depth,
                      Values sums, const std::function<Values(Value, const Values&)>& step);

}  // namespace lathe::emit
