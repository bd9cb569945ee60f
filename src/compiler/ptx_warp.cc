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

Value shuffle_xor(Emit& e, Value x, int32_t mask) {
  Type i32 = e.b.getI32Type(), i64 = e.b.getI64Type();
  const auto other = [&](Value half) -> Value {
    Value narrow = arith::TruncIOp::create(e.b, e.loc, i32, half);
    Value moved =
        LLVM::CallIntrinsicOp::create(e.b, e.loc, i32, e.b.getStringAttr("llvm.nvvm.shfl.sync.bfly.i32"),
                                      ValueRange{e.i32(-1), narrow, e.i32(mask), e.i32(kWarp - 1)})
            .getResults();
    return arith::ExtUIOp::create(e.b, e.loc, i64, moved);
  };
  Value half = e.constant(i64, 32);
  Value high = arith::ShLIOp::create(e.b, e.loc, other(arith::ShRUIOp::create(e.b, e.loc, x, half)), half);
  return arith::OrIOp::create(e.b, e.loc, high, other(x));
}

}  // namespace lathe::emit::ptx
