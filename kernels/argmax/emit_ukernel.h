// argmax through a ukernel.
#pragma once

#include "compiler/dialect.h"
#include "kernels/argmax/emit_best.h"

namespace lathe::emit {

// The best of a row's `columns` >= 1 values, from `uint32_t f(const void* row, int64_t columns)`, its column.
Best ukernel_row(Emit& e, ir::UkernelAttr ukernel, const View& row, Value columns);

}  // namespace lathe::emit
