// argmax with a ukernel.
#pragma once

#include "compiler/dialect.h"
#include "compiler/gpu_kernel.h"
#include "kernels/argmax/emit_best.h"

namespace lathe::emit {

// The best of a row's `columns` >= 1 values. The ukernel `uint32_t f(const void* row, int64_t columns)` finds
// its column.
Best ukernel_row(Emit& e, ir::UkernelAttr ukernel, const View& row, Value columns);

// The best of the `length` (i32, >= 1) values of v from `at` on, in every thread of a group of `group`
// adjacent threads, which is a wave or the workgroup (argmax/ukernel/groups.c). `place` (i32): the thread's
// number in its group. All threads of the workgroup must call this.
llvm::FailureOr<Best> ukernel_group(Emit& e, GpuKernel& kernel, ir::UkernelAttr ukernel, const View& v,
                                    Value at, Value length, Value place, int64_t group);

}  // namespace lathe::emit
