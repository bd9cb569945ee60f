// How the operands of a class that is measured lie in memory.
#pragma once

#include "core/problem.h"
#include "lathe/lathe.h"

namespace lathe {

inline lathe_dtype dtype_of(DType t) { return static_cast<lathe_dtype>(t); }

// The size of a matrix whose rows start `pitch` elements apart.
size_t bytes_of(int64_t rows, int64_t pitch, DType t);

// The shape of a matrix as it is stored.
struct Shape {
  int64_t rows = 0, columns = 0;
};
inline Shape stored(int64_t rows, int64_t columns, bool transposed) {
  return transposed ? Shape{columns, rows} : Shape{rows, columns};
}

struct Placed {
  lathe_operand operand = LATHE_OPERAND_INIT;
  size_t bytes = 0;  // size of the whole batch
};
// `shape` is as stored. The rows start as far apart as the alignment of the class requires.
Placed place(const Shape& shape, bool transposed, DType t, Alignment alignment, int64_t batch);
// B of a product, which may be packed.
Placed place_weight(const ProblemClass& c, const Dims& dims);

}  // namespace lathe
