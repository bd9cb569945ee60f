// lathe-native-math: math ops on f32 (and vectors of it) that every GPU back end selects as instructions
// become calls of LLVM's intrinsics. Left to MLIR's conversions they would become calls of the vendors'
// device libraries.
#include "compiler/mlir.h"
#include "compiler/passes.h"

namespace lathe {
namespace {
using namespace mlir;

// The intrinsic of an op but for the type, "" if it has none.
StringRef intrinsic_of(Operation* op) {
  if (isa<math::FmaOp>(op)) return "llvm.fma";
  if (isa<math::FloorOp>(op)) return "llvm.floor";
  if (isa<math::AbsFOp>(op)) return "llvm.fabs";
  if (isa<math::CopySignOp>(op)) return "llvm.copysign";
  return "";
}

// ".f32", ".v4f32"; "" for another type.
std::string suffix_of(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  if (!getElementTypeOrSelf(type).isF32() || (vector && vector.getRank() != 1)) return "";
  return vector ? ".v" + std::to_string(vector.getNumElements()) + "f32" : ".f32";
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
      if (name.empty()) return;
      Type type = op->getResult(0).getType();
      const std::string suffix = suffix_of(type);
      if (suffix.empty()) return;
      OpBuilder b(op);
      auto call = LLVM::CallIntrinsicOp::create(b, op->getLoc(), type, b.getStringAttr(name + suffix),
                                                op->getOperands());
      op->replaceAllUsesWith(call);
      op->erase();
    });
  }
};

}  // namespace

std::unique_ptr<Pass> make_native_math_pass() { return std::make_unique<NativeMathPass>(); }

}  // namespace lathe
