#include "kernels/argmax/emit_ukernel.h"

#include "compiler/ukernel.h"
#include "core/facts.h"
#include "kernels/argmax/emit_keys.h"

namespace lathe::emit {
using namespace mlir;

Best ukernel_row(Emit& e, ir::UkernelAttr ukernel, const View& row, Value columns) {
  Value address = pointer_to(e, row.memory, row.offset);
  Value column = call_ukernel(e, ukernel, e.b.getI32Type(), {address, columns});
  Value at = arith::IndexCastUIOp::create(e.b, e.loc, e.index(), column);
  return {e.to_f32(e.load(row.memory, e.add(row.offset, at))), column};
}

llvm::FailureOr<Best> ukernel_group(Emit& e, GpuKernel& kernel, ir::UkernelAttr ukernel, const View& v,
                                    Value at, Value length, Value place, int64_t group) {
  const int64_t wave =
      wave_size({kernel.rocm() ? Backend::kRocm : Backend::kCuda, kernel.arch().str(), /*features=*/""});
  Values operands = {pointer_to(e, v.memory, at), length, place};
  if (kernel.config().getTileM() == 1) {
    operands.push_back(e.i32(group));
    // A key, a column and a value for each wave.
    Value partials = kernel.shared(e.b.getI32Type(), 3 * group / wave);
    operands.push_back(shared_pointer(e, partials, e.idx(0)));
  } else if (group != wave) {
    return emitError(e.loc,
                     "kernel_config: with several rows per workgroup the ukernel needs one wave per row");
  }
  Value found = call_ukernel(e, ukernel, e.b.getI64Type(), operands);
  Type i32 = e.b.getI32Type();
  Value high = arith::ShRUIOp::create(e.b, e.loc, found, e.constant(e.b.getI64Type(), 32));
  Value bits = arith::TruncIOp::create(e.b, e.loc, i32, high);
  return Best{arith::BitcastOp::create(e.b, e.loc, e.f32(), bits),
              arith::TruncIOp::create(e.b, e.loc, i32, found)};
}

}  // namespace lathe::emit
