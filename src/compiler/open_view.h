// Operands of generic kernels, whose layouts and dtypes a launch's form says (core/generic.h).
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// Whether the payload that `op` lies in is a generic kernel's.
bool is_generic(mlir::Operation* op);

// Marks what is open in the view of the payload's operand `name`, of `type`. A and B of a matmul: their
// element (i, j) is at i * across + j * along, `across` being the leading dimension before.
void open_view(Emit& e, const Arguments& arguments, llvm::StringRef name, mlir::RankedTensorType type,
               View* v, Value* across, Value* along);

// Element `at` (lanes 0), or the vector from there on (`left` of it if given), of a view whose dtype is open,
// as f32: 0 where there is no such operand.
Value load_open(Emit& e, const View& v, Value at, int64_t lanes = 0, Value left = nullptr);
// Rounds `x` (f32, a vector of it or i64) to the view's dtype and stores it; nothing where there is no such
// operand.
void store_open(Emit& e, Value x, const View& v, Value at, Value left = nullptr);

}  // namespace lathe::emit
