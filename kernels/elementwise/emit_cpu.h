// The elementwise kernel of the CPU.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// Replaces the module's elementwise payload by a CPU task function.
mlir::LogicalResult emit_elementwise_cpu(mlir::ModuleOp module);

}  // namespace lathe::emit
