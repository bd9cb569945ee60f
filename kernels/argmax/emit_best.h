// The comparison every argmax kernel is made of, on scalars or vectors.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// A running maximum (f32) and its column (i32, unsigned).
struct Best {
  Value value, column;
};

// Whether x, of a higher column, takes the place of the best: if it is greater, or the first NaN.
Value rises(Emit& e, Value x, Value best);
// The better of two whose columns may be in any order: the lower of equals (or of two NaNs) wins.
Best better(Emit& e, const Best& a, const Best& b);
// The next if its value rises, else the best as it was.
Best keep_better(Emit& e, const Best& best, const Best& next);
// Stores the step's results for `row` (index) of its output, the column as column + offset; a value nobody
// wants is left out.
void store_best(Emit& e, const TileProgram& p, Value row, const Best& best, Value offset);

}  // namespace lathe::emit
