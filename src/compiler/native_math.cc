// lathe-native-math: math ops that every GPU back end selects as instructions become calls of LLVM's
// intrinsics. Left to MLIR's conversions they would become calls of the vendors' device libraries.
#include "compiler/mlir.h"
#include "compiler/passes.h"

namespace lathe {
namespace {
using namespace mlir;

// The f32 intrinsic of an op, "" if it has none.
StringRef intrinsic_of(Operation* op) {
  if (isa<math::FmaOp>(op)) return "llvm.fma.f32";
  if (isa<math::FloorOp>(op)) return "llvm.floor.f32";
  if (isa<math::AbsFOp>(op)) return "llvm.fabs.f32";
  if (isa<math::CopySignOp>(op)) return "llvm.copysign.f32";
  return "";
}

struct NativeMathPass : PassWrapper<NativeMathPass, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NativeMathPass)
  StringRef getArgument() const override { return "lathe-native-math"; }
  StringRef getDescription() const override { return "Turn math ops on f32 into LLVM intrinsics"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<LLVM::LLVMDialect>();
  }
  void runOnOperation() override {
    getOperation()->walk([&](Operation* op) {
      StringRef name = intrinsic_of(op);
      if (name.empty() || !op->getResult(0).getType().isF32()) return;
      OpBuilder b(op);
      auto call = LLVM::CallIntrinsicOp::create(b, op->getLoc(), b.getF32Type(), b.getStringAttr(name),
                                                op->getOperands());
      op->replaceAllUsesWith(call);
      op->erase();
    });
  }
};

}  // namespace

std::unique_ptr<Pass> make_native_math_pass() { return std::make_unique<NativeMathPass>(); }

}  // namespace lathe
