// CPU argmax kernels.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// Replaces the module's argmax payload by CPU task functions.
mlir::LogicalResult emit_argmax_cpu(mlir::ModuleOp module);

}  // namespace lathe::emit
