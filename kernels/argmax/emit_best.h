// The comparison that all argmax kernels use, on scalars or vectors.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// A running maximum (f32) and its column (i32, unsigned).
struct Best {
  Value value, column;
};

// Whether x, whose column is higher, replaces the best: if it is greater, or the first NaN.
Value rises(Emit& e, Value x, Value best);
// The better of two whose columns may be in any order. Of equal values, or of two NaNs, the lower column wins.
Best better(Emit& e, const Best& a, const Best& b);
// `next` if its value rises over the best, else `best`.
Best keep_better(Emit& e, const Best& best, const Best& next);
// Stores the step's results for `row` (index) of its output. The index is column + offset; the value is
// stored only if it is wanted.
void store_best(Emit& e, const TileProgram& p, Value row, const Best& best, Value offset);

}  // namespace lathe::emit
