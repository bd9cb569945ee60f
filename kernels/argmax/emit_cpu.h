// The CPU argmax kernels, and what matmul_argmax shares with them.
#pragma once

#include "kernels/argmax/emit_best.h"

namespace lathe::emit {

// Replaces the module's argmax payload by CPU task functions.
mlir::LogicalResult emit_argmax_cpu(mlir::ModuleOp module);

// Loads a vector of a row's values (f32) from a column on. If `left` is given, lanes from `left` on are -inf.
using LoadColumns = std::function<Value(Value column, Value left)>;
// Maximum and column of `columns` >= 1 values, with `unroll` vectors of running maxima. `row`: the same
// values in memory. If it is given, blocks in which nothing rises are skipped.
Best reduce_row(Emit& e, Value columns, int64_t lanes, int64_t unroll, const LoadColumns& load,
                const View* row = nullptr);
// The best pair in a row of a merge step.
Best merge_row(Emit& e, const TileProgram& p);

}  // namespace lathe::emit
