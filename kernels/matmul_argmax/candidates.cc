#include "kernels/matmul_argmax/candidates.h"

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"

namespace lathe {
namespace {

// Instructions for one logit: the rounding, the comparison with its NaN test, two selects (estimate from the
// code). On the CPU, for one vector of logits.
constexpr double kGpuInstructions = 10, kCpuInstructions = 8;
// A fence, a ticket, and the first load after them.
constexpr double kTicketSeconds = 1.5e-6;
constexpr double kPairBytes = 8;

// The class with which the matmul's tables are queried: D has the dtype of the logits. `op` stays kMatmulArgmax,
// because some of the kernels size their shared memory by it.
ProblemClass product_of(const ProblemClass& c) {
  ProblemClass product = c;
  product.d = c.logits;
  product.logits = DType::kNone;
  product.wants_values = 0;
  return product;
}

std::string refusal(const ProblemClass& c, bool on_rocm, const RankedPlan& r) {
  if (!r.rejection.empty()) return r.rejection;
  const CompileConfig& config = r.plan.config;
  if (config.split() != kNoSplit || r.plan.launch.splits > 1)
    return "split-K: partial sums cannot be compared";
  // If a kernel that is not persistent rounds to f16, ptxas 13.0 serialises its products (warning C7514).
  if (config.kernel() == KernelKind::kWgmma && config.persistent() == 0 && c.logits == DType::kF16)
    return "logits of f16 need a persistent kernel";
  // The bounds checks of more columns need more scalar registers than gfx90a has, and spill.
  if (const auto* mma = config.find<MmaConfig>(); on_rocm && mma != nullptr && mma->register_n > 64)
    return absl::StrCat("comparing ", mma->register_n, " columns per wave would spill registers");
  if (row_of(config.kernel()).serves(Op::kMatmulArgmax)) return "";
  return "does not support matmul_argmax";
}

int32_t merge_of(const Target& target, int64_t column_tiles) {
  if (column_tiles == 1) return kNoSplit;
  return may_merge_last(target) ? kMergeLast : kMergeStep;
}

double gpu_seconds(const GpuRates& rates, const MatmulSizes& s, const CompileConfig& config) {
  constexpr double kLanes = 128;  // lanes of an SM or CU
  const double logits = double(s.m) * s.n, row_tiles = std::ceil(double(s.m) / config.tile_m());
  const double compare = logits * kGpuInstructions / (rates.units * kLanes * rates.clock_hz);
  if (config.split() == kNoSplit) return compare;
  const double bytes = double(s.m) * std::ceil(double(s.n) / config.tile_n()) * kPairBytes;
  if (config.split() == kMergeStep)
    return compare + rates.launch_seconds + kMemorySeconds + bytes / rates.memory_bytes_per_second;
  const double share = std::min(1.0, row_tiles / rates.units);
  return compare + kTicketSeconds + bytes / (rates.memory_bytes_per_second * kL2OverMemory * share);
}

double cpu_seconds(const CpuRates& rates, const MatmulSizes& s, const CompileConfig& config) {
  const double column_tiles = std::ceil(double(s.n) / config.tile_n());
  const double vectors = double(s.m) * s.n / rates.lanes;
  const double tasks = std::ceil(double(s.m) / config.tile_m()) * column_tiles;
  const double compare =
      vectors * kCpuInstructions / 2 / rates.clock_hz / std::min<double>(rates.workers, tasks);
  if (config.split() == kNoSplit) return compare;
  // The pairs of a row are compared one after the other.
  const double row = kTaskSeconds + column_tiles * kFmaLatency / rates.clock_hz;
  return compare + rates.schedule_seconds(s.m, row, row, s.m);
}

}  // namespace

void enumerate_matmul_argmax(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const Target& target = context.facts.target;
  const ProblemClass product = product_of(context.problem);
  const CandidateContext matmul = {product, context.facts, context.workers, context.split_k};
  const size_t first = out->size();
  for (const KernelFamily& family : matmul_families())
    if (family.backend == target.backend) family.enumerate(matmul, out);
  const MatmulSizes s(product);
  for (size_t i = first; i < out->size(); ++i) {
    RankedPlan& r = (*out)[i];
    r.rejection = refusal(context.problem, target.backend == Backend::kRocm, r);
    if (!r.rejection.empty()) continue;
    CompileConfig& config = r.plan.config;
    // Tiles go to the comparison through scratch.
    config.set("store_directly", 0), config.set("piece", 0);
    config.set_split(merge_of(target, ceil_div(s.n, config.tile_n())));
    r.plan.predicted_seconds += target.backend == Backend::kCpu
                                    ? cpu_seconds(CpuRates(matmul), s, config)
                                    : gpu_seconds(GpuRates(matmul.facts), s, config);
    absl::StrAppend(&r.plan.numeric_recipe, "; rounded to ", std::string(name_of(context.problem.logits)),
                    "; lowest index wins, first NaN wins");
  }
}

}  // namespace lathe
