// CPU argmax kernels, and what they share with matmul_argmax.
#pragma once

#include "kernels/argmax/emit_best.h"

namespace lathe::emit {

// Replaces the module's argmax payload by CPU task functions.
mlir::LogicalResult emit_argmax_cpu(mlir::ModuleOp module);

// A vector of a row's values (f32) from a column on; given `left`, the lanes at and beyond it are -inf.
using LoadColumns = std::function<Value(Value column, Value left)>;
// Maximum and column of `columns` >= 1 values, `unroll` vectors of running maxima. `row`, if given: the same
// values in memory, of which what cannot rise is passed over in blocks.
Best reduce_row(Emit& e, Value columns, int64_t lanes, int64_t unroll, const LoadColumns& load,
                const View* row = nullptr);
// The best of the pairs of a merge step's row.
Best merge_row(Emit& e, const TileProgram& p);

}  // namespace lathe::emit
