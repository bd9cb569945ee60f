// The program of an elementwise step: how each of its inputs is read, and its body on scalars or vectors.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// An input of the step's generic as its map says that it lies.
struct ElementwiseAccess {
  enum Kind {
    kAlongN,  // element (i, j) at i * row_stride + j
    kAlongM,  // at j * row_stride + i
    kPerRow   // at i * row_stride, whatever j
  } kind = kAlongN;
  View view;

  // Where an element of the tile is; a sum of these is an offset in `view.memory`.
  Value at(Emit& e, Value row, Value column) const;
};
llvm::FailureOr<llvm::SmallVector<ElementwiseAccess>> elementwise_accesses(const TileProgram& p);

// The step's result of the elements from (row, column) of the tile on, `lanes` of them along n (0: of one, as
// a scalar): `inputs` as they lie in memory, and so the result. f16 and bf16 are computed in f32 and rounded
// after every operation that is not exact, which of these gives what computing in them would.
Value elementwise_result(Emit& e, const TileProgram& p, llvm::ArrayRef<Value> inputs, Value row, Value column,
                         int64_t lanes);

}  // namespace lathe::emit
