// The multi-MMA inner kernel by a ukernel, in place of the generated one (MmaTile).
#pragma once

#include "compiler/dialect.h"
#include "kernels/matmul/mma/emit_operand.h"

namespace lathe::emit {

// The warp's sums over all of K of the program's tile, MatrixInstruction::sums registers for each fragment of
// its part, row by row. `shared`: shared_bytes of the shape, which the ukernel has to itself until it
// returns.
Values sums_of_ukernel(Emit& e, const GpuKernel& kernel, const MmaShape& shape, TileProgram& p,
                       ir::UkernelAttr ukernel, Value shared);

}  // namespace lathe::emit
