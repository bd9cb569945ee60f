#include "kernels/argmax/emit_ukernel.h"

#include "compiler/ukernel.h"

namespace lathe::emit {
using namespace mlir;

Best ukernel_row(Emit& e, ir::UkernelAttr ukernel, const View& row, Value columns) {
  Value address = pointer_to(e, row.memory, row.offset);
  Value column = call_ukernel(e, ukernel, e.b.getI32Type(), {address, columns});
  Value at = arith::IndexCastUIOp::create(e.b, e.loc, e.index(), column);
  return {e.to_f32(e.load(row.memory, e.add(row.offset, at))), column};
}

}  // namespace lathe::emit
