// Products whose rows are not those of a plain matmul (Rows in core/problem.h), for every family on GPUs.
#pragma once

#include "kernels/matmul/emit_gpu.h"

namespace lathe::emit {

// The Rows of the module's class.
Rows rows_of(mlir::ModuleOp module);

// Emits the product's step with `family`: for the rows that exist (kDeviceM), or for a tile of the schedule (grouped).
// Workgroups without rows end at once. A persistent kernel takes its tiles itself (GpuStep::group_tiles()).
mlir::LogicalResult emit_some_rows(Emit& e, GpuKernel& kernel, const GpuStep& step, Rows rows,
                                   MatmulFamily family);

// Adds the kernels of the steps before and after a grouped product, whose symbol is `symbol`.
mlir::LogicalResult add_grouped_steps(mlir::ModuleOp module, llvm::StringRef symbol,
                                      ir::KernelConfigAttr config);

}  // namespace lathe::emit
