// Calls a ukernel as the multi-MMA inner kernel, in place of the generated one (MmaTile).
#pragma once

#include "compiler/dialect.h"
#include "kernels/matmul/mma/emit_operand.h"

namespace lathe::emit {

// The warp's accumulators over all of K: MatrixInstruction::sums values for each fragment of its part, row by
// row. `shared`: the shape's shared_bytes, which only the ukernel uses until it returns.
Values sums_of_ukernel(Emit& e, const GpuKernel& kernel, const MmaShape& shape, TileProgram& p,
                       ir::UkernelAttr ukernel, Value shared);

}  // namespace lathe::emit
