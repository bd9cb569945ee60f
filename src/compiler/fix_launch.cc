// lathe-fix-launch: replaces the launch arguments "splits" and "k_chunk" of a distributed payload by constants.
// Tests use it to compare the kernel for any number of splits with a kernel specialised for one number.
#include "compiler/dialect.h"
#include "compiler/mlir.h"
#include "compiler/passes.h"

namespace lathe {
namespace {
using namespace mlir;

struct FixLaunchPass : PassWrapper<FixLaunchPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FixLaunchPass)
  FixLaunchPass() = default;
  FixLaunchPass(const FixLaunchPass& other) : PassWrapper(other) {}

  Option<int64_t> splits{*this, "splits", llvm::cl::desc("the number of splits"), llvm::cl::init(0)};
  Option<int64_t> k_chunk{*this, "k-chunk", llvm::cl::desc("the length of a split along K"),
                          llvm::cl::init(0)};

  StringRef getArgument() const override { return "lathe-fix-launch"; }
  StringRef getDescription() const override {
    return "Replace the launch's number of splits and chunk length by constants";
  }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<arith::ArithDialect>();
  }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    OpBuilder b = OpBuilder::atBlockBegin(&function.getBody().front());
    for (BlockArgument argument : function.getArguments()) {
      auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), ir::kOperandAttr);
      const int64_t value = !name                          ? 0
                            : name.getValue() == "splits"  ? int64_t{splits}
                            : name.getValue() == "k_chunk" ? int64_t{k_chunk}
                                                           : 0;
      if (value > 0) argument.replaceAllUsesWith(arith::ConstantIndexOp::create(b, function.getLoc(), value));
    }
  }
};

}  // namespace

std::unique_ptr<Pass> make_fix_launch_pass() { return std::make_unique<FixLaunchPass>(); }

}  // namespace lathe
