// matmul on Hopper with warpgroup products: "wgmma".
#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/wgmma_shape.h"

namespace lathe {
namespace {

struct Row {
  int32_t tile_m, tile_n, tile_k, consumers, swap;
};
constexpr Row kRows[] = {
    {128, 128, 64, 2, 0},
};

}  // namespace

void enumerate_matmul_wgmma(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  if (c.alignment != Alignment::k16 || c.a == DType::kF32) return;
  for (const Row& r : kRows) {
    CompileConfig config;
    config.kernel = "wgmma";
    config.tile_m = r.tile_m, config.tile_n = r.tile_n, config.tile_k = r.tile_k;
    config.threads = 128 * (r.consumers + 1);
    config.swap = r.swap;
    config.stages = 4;
    RankedPlan plan;
    plan.plan.config = config;
    plan.plan.predicted_seconds = 1e-6;
    plan.plan.numeric_recipe = "x";
    out->push_back(plan);
  }
}

}  // namespace lathe
