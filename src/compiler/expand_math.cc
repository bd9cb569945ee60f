// lathe-expand-math: replaces erf, tanh and exp on f32 by polynomial approximations, so that kernels need no
// math library on any target.
#include "compiler/mlir.h"
#include "compiler/passes.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace lathe {
namespace {
using namespace mlir;

struct ExpandMathPass : PassWrapper<ExpandMathPass, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandMathPass)
  StringRef getArgument() const override { return "lathe-expand-math"; }
  StringRef getDescription() const override { return "Expand math functions into arithmetic"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<arith::ArithDialect, math::MathDialect, vector::VectorDialect>();
  }
  void runOnOperation() override {
    bool any = false;
    getOperation()->walk([&](Operation* op) { any |= isa<math::ErfOp, math::TanhOp, math::ExpOp>(op); });
    if (!any) return;
    RewritePatternSet patterns(&getContext());
    populateMathPolynomialApproximationPatterns(patterns, [](StringRef name) {
      return name == "math.erf" || name == "math.tanh" || name == "math.exp";
    });
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns)))) signalPassFailure();
  }
};

}  // namespace

std::unique_ptr<Pass> make_expand_math_pass() { return std::make_unique<ExpandMathPass>(); }

}  // namespace lathe
