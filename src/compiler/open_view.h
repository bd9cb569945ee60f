// Views of the operands of generic kernels. `form` of the argument block gives their layouts and dtypes at
// launch (core/generic.h).
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// Whether `op` belongs to the payload of a generic kernel.
bool is_generic(mlir::Operation* op);

// Adds the run-time dtype and layout to the view `v` of the payload's operand `name`, which has the type `type`.
// For A and B of a matmul it sets the strides so that element (i, j) is at i * across + j * along. On entry
// *across is the leading dimension.
void open_view(Emit& e, const Arguments& arguments, llvm::StringRef name, mlir::RankedTensorType type,
               View* v, Value* across, Value* along);

// Loads from a view whose dtype is known only at launch, as f32: the element `at` if lanes is 0, otherwise a
// vector that starts there, of which only the first `left` lanes are read if `left` is given. The result is 0 if
// the operand is absent.
Value load_open(Emit& e, const View& v, Value at, int64_t lanes = 0, Value left = nullptr);
// Rounds `x` (f32, a vector of f32, or i64) to the view's dtype and stores it. Stores nothing if the operand is
// absent.
void store_open(Emit& e, Value x, const View& v, Value at, Value left = nullptr);

}  // namespace lathe::emit
