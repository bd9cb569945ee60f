#include "compiler/ptx_warp.h"

namespace lathe::emit::ptx {
using namespace mlir;

namespace {
Value redux(Emit& e, const char* intrinsic, Value x) {
  Value all_lanes = e.i32(-1);
  return LLVM::CallIntrinsicOp::create(e.b, e.loc, e.b.getI32Type(), e.b.getStringAttr(intrinsic),
                                       ValueRange{x, all_lanes})
      .getResults();
}
}  // namespace

Value redux_max(Emit& e, Value x) { return redux(e, "llvm.nvvm.redux.sync.umax", x); }
Value redux_min(Emit& e, Value x) { return redux(e, "llvm.nvvm.redux.sync.umin", x); }

}  // namespace lathe::emit::ptx
