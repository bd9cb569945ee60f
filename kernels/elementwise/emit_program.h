// The program of an elementwise step: how its inputs are read, and its body on scalars or vectors.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// How an input of the step's linalg.generic lies in memory, according to its indexing map.
struct ElementwiseAccess {
  enum Kind {
    kAlongN,  // element (i, j) is at i * row_stride + j
    kAlongM,  // element (i, j) is at j * row_stride + i
    kPerRow   // all elements of row i are at i * row_stride
  } kind = kAlongN;
  View view;

  // Offset of an element of the tile in `view.memory`.
  Value at(Emit& e, Value row, Value column) const;
};
llvm::FailureOr<llvm::SmallVector<ElementwiseAccess>> elementwise_accesses(const TileProgram& p);

// The step's result for `lanes` elements along n from (row, column) of the tile on, as a vector; for one
// element as a scalar if `lanes` is 0. `inputs` and the result have the types of memory. f16 and bf16 are
// computed in f32 and rounded after every operation that is not exact, which gives the same result as
// computing in f16 or bf16.
Value elementwise_result(Emit& e, const TileProgram& p, llvm::ArrayRef<Value> inputs, Value row, Value column,
                         int64_t lanes);

}  // namespace lathe::emit
