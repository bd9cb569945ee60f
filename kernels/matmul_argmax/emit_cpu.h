// The CPU kernel of matmul_argmax: any form of the matmul's tiles, compared in the worker's scratch memory.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// Replaces the module's payload by CPU task functions and records the scratch bytes that a worker needs.
mlir::LogicalResult emit_matmul_argmax_cpu(mlir::ModuleOp module);

}  // namespace lathe::emit
