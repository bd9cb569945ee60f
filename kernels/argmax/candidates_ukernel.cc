// argmax by a ukernel: the column of a row's maximum, or of a chunk of it; the kernel around it reads the
// value there.
#include "kernels/candidates_ukernel.h"

#include "kernels/argmax/candidates.h"
#include "kernels/candidates_model.h"

namespace lathe {
namespace {

// Vectors of a block that is looked at as a whole (row.h).
constexpr int32_t kBlockVectors = 16;

// Two maxima for a vector of elements; what a task ends with, and the last vectors one by one (estimates).
double vector_cycles(const ProblemClass& c) { return c.a == DType::kF32 ? 1.5 : 0.75; }
constexpr double kEndCycles = 60;

std::string serves_all(const CandidateContext&) { return ""; }

CompileConfig whole_rows(const CandidateContext& context) {
  CompileConfig config;
  config.tile_m = config.register_m = 1;
  config.lanes = vector_lanes(context.facts.target);
  config.register_n = config.tile_n =
      kBlockVectors * config.lanes * 4 / static_cast<int32_t>(size_of(context.problem.a));
  config.split = splits_rows(context.problem);
  return config;
}

void price(const CandidateContext& context, const CompileConfig& config, std::vector<RankedPlan>* out) {
  append_cpu_rows(context, config, {vector_cycles(context.problem), kEndCycles}, out);
}

}  // namespace

const std::vector<UkernelRow>& argmax_ukernels() {
  static const std::vector<UkernelRow> rows = {
      {Op::kArgmax, Backend::kCpu, DType::kF32, "lathe_argmax_row_f32", "argmax/rows",
       "alwaysinline nounwind", serves_all, whole_rows, 0, price},
      {Op::kArgmax, Backend::kCpu, DType::kF16, "lathe_argmax_row_f16", "argmax/rows",
       "alwaysinline nounwind", serves_all, whole_rows, 0, price},
      {Op::kArgmax, Backend::kCpu, DType::kBF16, "lathe_argmax_row_bf16", "argmax/rows",
       "alwaysinline nounwind", serves_all, whole_rows, 0, price},
  };
  return rows;
}

}  // namespace lathe
