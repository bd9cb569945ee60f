// "xegpu" on Intel's Xe-HPC (pvc) and Xe2 (bmg): matmul with the matrix engines (dpas). Each subgroup loads its
// own blocks of A and B from memory, which L1 keeps for its neighbours, and accumulates register_m x register_n.
#include "kernels/matmul/candidates.h"

#include "absl/strings/str_cat.h"
#include "kernels/matmul/xegpu/shape.h"

namespace lathe {
namespace {

struct Row {
  int32_t tile_m, tile_n, register_m, register_n, tile_k;
};
// At most 64 accumulators a lane, which fill half of a hardware thread's 128 registers of 64 bytes. Operands
// and addresses need the other half.
constexpr Row kRows[] = {
    {8, 64, 8, 16, 64},    {8, 128, 8, 32, 32},   {16, 128, 16, 32, 32},  {32, 128, 32, 32, 32},
    {64, 128, 32, 32, 32}, {64, 256, 32, 32, 32}, {128, 128, 32, 32, 32}, {128, 256, 32, 32, 32},
};

// Estimates: share of the matrix engines' rate that loads and addresses leave; share of memory bandwidth;
// bytes a cycle from L1 into an Xe-core.
constexpr double kEfficiency = 0.7, kMemoryEfficiency = 0.85, kL1BytesPerCycle = 256;

int32_t threads_of(const Row& r) {
  return r.tile_m / r.register_m * (r.tile_n / r.register_n) * XegpuShape::kLanes;
}

std::string operands_refusal_of(const CandidateContext& context) {
  const ProblemClass& c = context.problem;
  const Target& target = context.facts.target;
  if (target.arch != "pvc" && target.arch != "bmg")
    return absl::StrCat("no known matrix engine on target ", target.arch);
  if (is_blocks(c.b)) return absl::StrCat("does not decode ", std::string(name_of(c.b)));
  if (c.a != DType::kF16 && c.a != DType::kBF16)
    return absl::StrCat("supports f16 and bf16 only, not ", std::string(name_of(c.a)));
  if (c.trans_a != 0) return "needs K contiguous in A: block loads transpose 32-bit elements only";
  if (c.alignment != Alignment::k16) return "block loads need rows aligned to 16 bytes";
  const auto bytes = static_cast<int64_t>(size_of(c.a));
  const int64_t least = XegpuShape::kLeastRowBytes / bytes, most = XegpuShape::kMostRowBytes / bytes;
  for (int64_t row : {c.k, c.trans_b ? c.k : c.n})
    if (row < least || row > most || row % 2 != 0)
      return absl::StrCat("block loads need rows with an even number of elements from ", least, " to ", most,
                          ", not ", row);
  return invariance_refusal(context, KernelKind::kXegpu);
}

std::string check(const GpuRates& rates, const MatmulSizes& s, const Row& r) {
  if (threads_of(r) > rates.max_threads)
    return absl::StrCat("threads ", threads_of(r), " > ", int64_t(rates.max_threads));
  if (r.tile_m > 8 && r.tile_m > 8 * s.m) return absl::StrCat("tile_m ", r.tile_m, " > 8 * M ", s.m);
  return "";
}

double predict(const CandidateContext& context, const MatmulSizes& s, const Row& r, double resident,
               double splits, int32_t split) {
  const GpuRates rates(context.facts);
  const double row_tiles = std::ceil(double(s.m) / r.tile_m),
               column_tiles = std::ceil(double(s.n) / r.tile_n);
  const double per_unit = std::ceil(row_tiles * column_tiles * splits / rates.units);
  const double steps = std::ceil(double(s.k) / splits / r.tile_k);
  const double flops = 2.0 * r.tile_m * r.tile_n * steps * r.tile_k;
  const double matrix = context.facts.fact_or("flops_matrix_f16", 8 * rates.flops) / rates.units;
  const double compute = per_unit * flops / (matrix * kEfficiency);
  // Every subgroup reads all that it multiplies.
  const double read = double(r.tile_m) * r.tile_n * (1.0 / r.register_m + 1.0 / r.register_n) * s.input_bytes;
  const double l1 = per_unit * steps * r.tile_k * read / (kL1BytesPerCycle * rates.clock_hz);
  const double latency = std::ceil(per_unit / resident) * (steps + 1) * kMemorySeconds / 2;
  const double moved = gpu_read_bytes(rates, s, {double(r.tile_m), double(r.tile_n), splits},
                                      rates.units * resident, row_tiles) +
                       double(s.m) * s.n * (splits > 1 ? 4 * splits : s.output_bytes);
  const double memory = moved / (kMemoryEfficiency * rates.memory_bytes_per_second);
  return rates.launch_seconds + std::max({compute, l1, latency, memory}) +
         gpu_merge_seconds(rates, s, splits, split, row_tiles * column_tiles);
}

}  // namespace

void enumerate_matmul_xegpu(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const GpuRates rates(context.facts);
  const MatmulSizes s(context.problem);
  const std::string refusal = operands_refusal_of(context);
  for (const Row& r : kRows) {
    Plan plan;
    XegpuConfig config;
    config.tile_m = r.tile_m, config.tile_n = r.tile_n, config.tile_k = r.tile_k;
    config.register_m = r.register_m, config.register_n = r.register_n;
    config.threads = threads_of(r);
    std::string reason = refusal.empty() ? check(rates, s, r) : refusal;
    if (!reason.empty()) {
      out->push_back(rejected(config, std::move(reason)));
      continue;
    }
    plan.resident = std::max(1, static_cast<int32_t>(rates.threads_per_unit) / threads_of(r));
    const double tiles = double(ceil_div(s.m, r.tile_m)) * ceil_div(s.n, r.tile_n);
    for (int32_t wanted :
         split_options(context, s.k, tiles, rates.units * plan.resident, 4 * int64_t{r.tile_k})) {
      const int32_t splits = normalize_splits(s.k, wanted, XegpuShape::kSplitMultiple);
      for (int32_t split : splits_of(context.facts.target, splits)) {
        config.split = split;
        plan.config = config;
        plan.launch.splits = splits;
        plan.predicted_seconds = predict(context, s, r, plan.resident, splits, split);
        plan.numeric_recipe =
            absl::StrCat("dpas ", std::string(name_of(context.problem.a)), " to f32, K in blocks of ",
                         XegpuShape::kDepth, "; ", merge_recipe(splits));
        out->push_back({plan, ""});
      }
    }
  }
}

}  // namespace lathe
