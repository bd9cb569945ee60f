// lathe-native-math: replaces math ops on f32, and on vectors of it, by LLVM intrinsics that every GPU back end
// selects as instructions. MLIR's conversions would call the vendors' device libraries instead.
//
// The option `divide` names the target's intrinsic for division of f32. CUDA's div.full.f32 has an error of at
// most 2 ulp, also for subnormals (PTX ISA, floating point instructions, div). The correctly rounded division is
// not used: its slow path becomes a call if PTX is compiled for linking, and a call serialises wgmma (C7509) and
// spills registers. Only activations divide, and 2 ulp are well within the error that the tests allow for an
// activation (tests/conformance/matmul_case.h).
#include "compiler/mlir.h"
#include "compiler/passes.h"

namespace lathe {
namespace {
using namespace mlir;

// The name of the op's intrinsic without the type suffix; empty if it has none.
StringRef intrinsic_of(Operation* op) {
  if (isa<math::FmaOp>(op)) return "llvm.fma";
  if (isa<math::FloorOp>(op)) return "llvm.floor";
  if (isa<math::AbsFOp>(op)) return "llvm.fabs";
  if (isa<math::CopySignOp>(op)) return "llvm.copysign";
  if (isa<math::SqrtOp>(op)) return "llvm.sqrt";
  return "";
}

// The type suffix of an intrinsic: ".f32" or ".v4f32"; empty for other types.
std::string suffix_of(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  if (!getElementTypeOrSelf(type).isF32() || (vector && vector.getRank() != 1)) return "";
  return vector ? ".v" + std::to_string(vector.getNumElements()) + "f32" : ".f32";
}

Value call(OpBuilder& b, Location loc, Type type, Twine intrinsic, ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(b, loc, type, b.getStringAttr(intrinsic), operands).getResult(0);
}

// Divides element by element, because the target's intrinsic takes scalars.
Value divide(OpBuilder& b, arith::DivFOp op, StringRef intrinsic) {
  Location loc = op.getLoc();
  auto vector = dyn_cast<VectorType>(op.getType());
  if (!vector) return call(b, loc, op.getType(), intrinsic, {op.getLhs(), op.getRhs()});
  SmallVector<Value> quotients;
  for (int64_t i = 0; i < vector.getNumElements(); ++i) {
    Value x = vector::ExtractOp::create(b, loc, op.getLhs(), ArrayRef<int64_t>{i});
    Value y = vector::ExtractOp::create(b, loc, op.getRhs(), ArrayRef<int64_t>{i});
    quotients.push_back(call(b, loc, vector.getElementType(), intrinsic, {x, y}));
  }
  return vector::FromElementsOp::create(b, loc, vector, quotients);
}

struct NativeMathPass : PassWrapper<NativeMathPass, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NativeMathPass)
  NativeMathPass() = default;
  NativeMathPass(const NativeMathPass& other) : PassWrapper(other) {}

  Option<std::string> division{*this, "divide", llvm::cl::desc("the LLVM intrinsic for division of f32")};

  StringRef getArgument() const override { return "lathe-native-math"; }
  StringRef getDescription() const override { return "Replace math ops on f32 by LLVM intrinsics"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<LLVM::LLVMDialect, vector::VectorDialect>();
  }
  void runOnOperation() override {
    getOperation()->walk([&](Operation* op) {
      auto division_op = division.empty() ? arith::DivFOp() : dyn_cast<arith::DivFOp>(op);
      StringRef name = intrinsic_of(op);
      if (name.empty() && !division_op) return;
      Type type = op->getResult(0).getType();
      const std::string suffix = suffix_of(type);
      if (suffix.empty()) return;
      OpBuilder b(op);
      Value result = division_op ? divide(b, division_op, division)
                                 : call(b, op->getLoc(), type, name + suffix, op->getOperands());
      op->getResult(0).replaceAllUsesWith(result);
      op->erase();
    });
  }
};

}  // namespace

std::unique_ptr<Pass> make_native_math_pass() { return std::make_unique<NativeMathPass>(); }

}  // namespace lathe
