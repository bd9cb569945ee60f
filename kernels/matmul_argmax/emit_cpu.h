// The CPU matmul_argmax kernel: any form of the matmul's tiles, compared in the worker's scratch.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// Replaces the module's payload by CPU task functions and notes the scratch bytes a worker needs.
mlir::LogicalResult emit_matmul_argmax_cpu(mlir::ModuleOp module);

}  // namespace lathe::emit
