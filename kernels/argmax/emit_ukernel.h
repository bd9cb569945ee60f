// argmax through a ukernel.
#pragma once

#include "compiler/dialect.h"
#include "compiler/gpu_kernel.h"
#include "kernels/argmax/emit_best.h"

namespace lathe::emit {

// The best of a row's `columns` >= 1 values, from `uint32_t f(const void* row, int64_t columns)`, its column.
Best ukernel_row(Emit& e, ir::UkernelAttr ukernel, const View& row, Value columns);

// The best of the `length` (i32, >= 1) values from `at` on in v, in every thread of a group of `group`
// neighbours, from argmax/ukernel/groups.c: the group is a wave, or the workgroup. `place` (i32) is the
// thread's in its group; every thread of the workgroup must come here.
llvm::FailureOr<Best> ukernel_group(Emit& e, GpuKernel& kernel, ir::UkernelAttr ukernel, const View& v,
                                    Value at, Value length, Value place, int64_t group);

}  // namespace lathe::emit
