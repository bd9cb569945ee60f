#include "compiler/check_grid.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/dialect.h"

namespace lathe {
namespace {
using namespace mlir;

using Extents = std::map<std::string, int64_t>;

std::optional<int64_t> value_of(OpFoldResult bound, func::FuncOp function, const Extents& extents) {
  if (auto attribute = dyn_cast<Attribute>(bound)) return cast<IntegerAttr>(attribute).getInt();
  const Value v = cast<Value>(bound);
  if (auto constant = v.getDefiningOp<arith::ConstantIndexOp>()) return constant.value();
  if (auto argument = dyn_cast<BlockArgument>(v);
      argument && argument.getOwner() == &function.getBody().front()) {
    auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), ir::kOperandAttr);
    const auto at = name ? extents.find(name.getValue().str()) : extents.end();
    if (at != extents.end()) return at->second;
    return std::nullopt;
  }
  auto apply = v.getDefiningOp<affine::AffineApplyOp>();
  if (!apply) return std::nullopt;
  SmallVector<Attribute> operands, results;
  for (Value operand : apply.getMapOperands()) {
    const std::optional<int64_t> known = value_of(operand, function, extents);
    if (!known) return std::nullopt;
    operands.push_back(IntegerAttr::get(IndexType::get(v.getContext()), *known));
  }
  if (failed(apply.getAffineMap().constantFold(operands, results))) return std::nullopt;
  return cast<IntegerAttr>(results[0]).getInt();
}

}  // namespace

absl::Status check_grid(ModuleOp module, const ProblemClass& problem, const Recipe& recipe) {
  absl::Status status;
  LaunchConfig launch;
  if (recipe.steps.size() > 1) launch.splits = 2;  // the merge step has a grid only with splits > 1
  module.walk([&](scf::ForallOp loop) {
    auto name = loop->getAttrOfType<StringAttr>(ir::kStepAttr);
    auto function = loop->getParentOfType<func::FuncOp>();
    const auto step = std::find_if(recipe.steps.begin(), recipe.steps.end(),
                                   [&](const Step& s) { return name && s.symbol == name.getValue(); });
    if (!function || !status.ok()) return;
    if (step == recipe.steps.end()) {
      status =
          absl::InvalidArgumentError("a loop over tiles must have the name of a launch step in lathe.step");
      return;
    }
    for (const int64_t m : {problem.m_lo, std::min<int64_t>(problem.m_hi, 1 << 20)}) {
      const Dims dims = {m, problem.n, problem.k, 3};
      int64_t tiles = 1, tasks = 1;
      for (OpFoldResult bound : loop.getMixedUpperBound()) {
        const auto n = value_of(
            bound, function,
            {{"m", m}, {"n", problem.n}, {"k", problem.k}, {"batch", dims.batch}, {"splits", launch.splits}});
        tiles = n && tiles >= 0 ? tiles * *n : -1;
      }
      const VarValues values = var_values(dims, launch);
      for (const auto& formula : step->grid) tasks *= evaluate(formula, values);
      if (tiles == tasks) continue;
      status = absl::InvalidArgumentError(absl::StrCat(
          "it makes ", tiles < 0 ? "an unknown number of" : absl::StrCat(tiles), " tiles with m = ", m,
          " and batch = ", dims.batch, ", but the launch runs ", tasks, ": use the plan's tile sizes"));
      return;
    }
  });
  return status;
}

}  // namespace lathe
