// matmul_argmax on GPUs: the sink to which the matmul kernels pass their accumulators.
#pragma once

#include "kernels/matmul/emit_gpu.h"

namespace lathe::emit {

// The sink of a step whose program has a contraction and an argmax.
std::unique_ptr<OutputSink> make_argmax_sink(Emit& e, GpuKernel& kernel, const GpuStep& step, TileProgram& p,
                                             const GridPosition& position);

}  // namespace lathe::emit
