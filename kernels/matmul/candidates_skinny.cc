// matmul on CUDA for at most 16 rows of A: "skinny". The weights are streamed once, so that a plan is as good
// as the number of bytes it keeps under way on every unit, from the first microsecond to the last. tile_n is
// no row of the table: it is what shares N out evenly among as many workgroups as run at once.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/skinny_shape.h"

namespace lathe {
namespace {

struct Row {
  int32_t threads;
  int32_t warps_n;   // warps along N, the rest of them along K
  int32_t unroll_k;  // units of 2 KB that each keeps in flight
};
// More warps along N make A's part of L2's traffic less, more along K the group less and the shares more
// even. 128 registers hold three units beside the sums; four spilled on some targets, as did two with 80
// registers.
constexpr Row kRows[] = {
    {256, 1, 3}, {256, 2, 3}, {256, 4, 3}, {256, 8, 3}, {512, 1, 3},
    {512, 2, 3}, {512, 4, 3}, {128, 1, 3}, {128, 4, 3},
};

// --- what a unit of the device gives; estimates where no source is named
constexpr double kGroupsPerUnit = 16;  // workgroups of a compute unit, more than any row here needs
// Static shared memory beside the dynamic: a ticket's word and, of matmul_argmax, a key for each row, which
// end where the dynamic part, aligned to 1024 bytes, may begin (as ptxas counts it).
constexpr int64_t kStaticShared = 1024;
constexpr double kReservedShared =
    1024;  // of each workgroup, by the system (CUDA Programming Guide, sm_80 and later)
// A load under full traffic takes longer than alone: 0.6 us against 0.9.
constexpr double kLoadedSeconds = 0.9e-6;
// Streaming reads reach this part of the memory's nominal rate.
constexpr double kReachable = 0.93;
// L2 to one unit: 64 bytes a cycle nominally, half of it sustained; all units together get about 0.35 of 64
// each (some 5.8 TB/s on GH100).
constexpr double kUnitBytesPerCycle = 32, kAllUnitsBytesPerCycle = 22;
// Cycles of a warp that no load of its own overlaps: a unit's products and reads of A for each 8 rows, and
// the meeting of the warps at a group's end.
constexpr double kUnitCycles = 60, kUnitCyclesPerRows = 50, kReduceCycles = 400;
// From the last product to the last store, and from the launch to the first load.
constexpr double kEndSeconds = 0.5e-6, kStartSeconds = 0.3e-6;

// What is known of one plan before it is priced.
struct Choice {
  SkinnyShape shape;
  int64_t splits, chunk;  // chunk: K of every split but the last
  int32_t split;          // Split
  double resident = 0;    // workgroups of a unit
  double workgroups = 0;
};

double resident_of(const GpuRates& rates, const SkinnyShape& s) {
  return std::min(
      {kGroupsPerUnit,
       std::floor((rates.shared_memory_bytes + kReservedShared) / (double(s.shared_bytes) + kReservedShared)),
       std::floor(rates.registers / (double(SkinnyShape::kRegisters) * s.in.threads))});
}

// f32 goes to matrix instructions as tf32, where that is asked for and there is a form.
bool matrix(const ProblemClass& c) { return c.b != DType::kF32 || (c.math == Math::kTf32 && c.trans_b != 0); }

// FMAs take four sums of each row: with more rows than this one unit spilled, 272 bytes.
constexpr int64_t kMostFmaRows = 8;

// Units that leave a thread's registers room for the rest; one more spilled, 4 to 68 bytes. Rounding to tf32
// and where weights' tails lie take a few registers, and before sm_90 so does what merges splits.
int64_t most_units(const SkinnyInput& in, int sm) {
  const int64_t most = sm < 90 ? 2 : 3;
  if (!in.matrix) return in.rows > 4 ? 2 : most;
  if (in.rows <= 8) return most;
  return SkinnyShape(in).tail != 0 ? 1 : in.element_bytes == 4 ? 2 : most;
}

SkinnyInput input_of(const ProblemClass& c, const Row& r, int sm) {
  SkinnyInput in;
  in.rows = representative_m(c), in.k = c.k, in.n = c.n;
  in.unroll_k = r.unroll_k, in.threads = r.threads;
  in.element_bytes = static_cast<int64_t>(size_of(c.b));
  in.k_major = c.trans_b != 0;
  in.matrix = matrix(c);
  in.unroll_k = std::min<int64_t>(r.unroll_k, most_units(in, sm));
  in.tile_n = 1, in.tile_k = SkinnyShape::kSplitMultiple;
  in.group = r.warps_n * SkinnyShape(in).warp_columns;
  return in;
}

// How many workgroups run at once. A cluster's lie in one part of the device, where not every unit finds a
// place in one: up to an eighth stays empty for eight.
double slots_of(const GpuRates& rates, const Choice& c) {
  return c.resident * rates.units * (c.split == kMergeCluster ? 1 - double(c.splits) / 64 : 1);
}

// Fills units with `rounds` of workgroups, each with as many whole groups of columns as makes that come out
// even.
Choice choose_tile(const GpuRates& rates, SkinnyInput in, int64_t splits, int32_t split, int64_t rounds) {
  const int64_t chunk = round_up(ceil_div(in.k, splits), SkinnyShape::kSplitMultiple);
  const int64_t groups = ceil_div(in.n, in.group);
  in.tile_k = chunk, in.tile_n = in.group;
  const double resident = resident_of(rates, SkinnyShape(in));
  // The tile's sums take shared memory, which may cost a workgroup: twice is enough to settle.
  Choice choice{SkinnyShape(in), splits, chunk, split, std::max(1.0, resident), 0};
  for (int i = 0; i < 2; ++i) {
    const auto slots = static_cast<int64_t>(slots_of(rates, choice)) * rounds;
    in.tile_n = in.group * ceil_div(groups * splits, std::max(slots, splits));
    choice.shape = SkinnyShape(in);
    choice.resident = resident_of(rates, choice.shape);
  }
  choice.workgroups = double(ceil_div(in.n, in.tile_n)) * splits;
  return choice;
}

// Bytes of weights that a workgroup keeps under way: the last of its warps' rounds may be short of units.
double in_flight(const SkinnyShape& s, double chunk) {
  const double units = std::ceil(chunk / s.unit), round = double(s.warps_k) * s.in.unroll_k;
  return double(s.warps_n) * units / std::ceil(units / round) * SkinnyShape::kUnitBytes;
}

// A round takes its loads' time and then what does not overlap them.
double round_seconds(const GpuRates& rates, const SkinnyShape& s, double chunk) {
  const double rounds = std::ceil(chunk / (double(s.unit) * s.warps_k * s.in.unroll_k));
  // Loads of the next round start while this one's products are under way.
  const double products =
      0.5 * s.in.unroll_k * (kUnitCycles + kUnitCyclesPerRows * std::ceil(s.in.rows / 8.0));
  const double reduce = s.warps_k > 1 ? kReduceCycles / rounds : 0;
  return kLoadedSeconds + (products + reduce) / rates.clock_hz;
}

double predict(const GpuRates& rates, const MatmulSizes& sizes, const Choice& c) {
  const SkinnyShape& s = c.shape;
  const double chunk = double(c.chunk), tiles = c.workgroups / c.splits;
  const double slots = slots_of(rates, c), reachable = kReachable * rates.memory_bytes_per_second;
  const double unit_rate = kUnitBytesPerCycle * rates.clock_hz;
  // The last tile may be narrow: on average a workgroup streams its share of N.
  const double weights = sizes.n / tiles * chunk * s.in.element_bytes,
               staged = s.in.rows * chunk * s.in.element_bytes;
  const double rounds = std::ceil(chunk / (double(s.unit) * s.warps_k * s.in.unroll_k));
  const double alone = double(s.groups) * rounds * round_seconds(rates, s, chunk);
  const auto wave = [&](double workgroups) {
    const double rate = std::min(reachable, std::min(rates.units, workgroups) * unit_rate);
    const double all_units = kAllUnitsBytesPerCycle * rates.clock_hz * rates.units;
    return std::max({alone, workgroups * weights / rate, workgroups * (weights + staged) / all_units});
  };
  const double full = std::floor(c.workgroups / slots), rest = c.workgroups - full * slots;
  const double stream = full * wave(slots) + (rest > 0 ? wave(rest) : 0);
  // Before the first product A must be there; the first weights come meanwhile, however fast the memory no
  // sooner than their latency.
  const double at_once = std::min(c.resident, std::ceil(c.workgroups / rates.units));
  const double weights_come =
      std::max(kLoadedSeconds, at_once * in_flight(s, chunk) / (reachable / rates.units));
  const double first = std::max(0.0, at_once * staged / unit_rate - weights_come);
  // Later rounds of workgroups start beside others that keep the memory busy, if there are others.
  const double start = kMemorySeconds + kEndSeconds;
  const double later = full > 0 ? (std::ceil(c.workgroups / slots) - 1) * start / c.resident : 0;
  const double merge = gpu_merge_seconds(rates, sizes, double(c.splits), c.split, tiles);
  return rates.launch_seconds + kStartSeconds + kMemorySeconds + first + stream + later + kEndSeconds + merge;
}

bool has_clusters(const std::string& arch) {
  return arch != "sm_80" && arch != "sm_86" && arch != "sm_87" && arch != "sm_89";
}

// Why the family does not take this request at all, "" if it does.
std::string check_class(const CandidateContext& context) {
  const ProblemClass& c = context.problem;
  if (c.m_lo != c.m_hi || c.m_hi > SkinnyShape::kMaxRows)
    return absl::StrCat("M up to ", c.m_hi, " > ", SkinnyShape::kMaxRows);
  if (c.determinism == Determinism::kBatchInvariant)
    return "batch_invariant: the order of K depends on M here";
  if (c.alignment != Alignment::k16) return "alignment: rows not 16-byte aligned";
  if (c.trans_a) return "A is not contiguous along K";
  if (context.facts.target.arch == "sm_75") return "sm_75 has no asynchronous copies";
  if (c.a != c.b)
    return absl::StrCat("no form for ", std::string(name_of(c.a)), " by ", std::string(name_of(c.b)));
  if (!matrix(c) && c.m_hi > kMostFmaRows)
    return absl::StrCat("f32 by FMAs: M ", c.m_hi, " > ", kMostFmaRows);
  if (is_fnuz(c.b) || (is_f8(c.b) && sm_version(context.facts.target) < 89))
    return absl::StrCat(context.facts.target.arch, " has no products of ", name_of(c.b));
  return "";
}

std::string name_of_math(const ProblemClass& c) {
  if (c.b != DType::kF32)
    return absl::StrCat(std::string(name_of(c.b)), c.b == DType::kI8 ? " to i32" : " to f32");
  return matrix(c) ? "tf32 to f32" : "f32";
}

// Who may merge that many splits.
SplitKinds kinds_of(const CandidateContext& context, int64_t splits) {
  if (splits == 1) return {kNoSplit};
  constexpr int64_t kPortableCluster = 8;  // CUDA Programming Guide: thread block clusters
  SplitKinds kinds = {kMergeLast};
  if (has_clusters(context.facts.target.arch) && splits <= kPortableCluster) kinds.push_back(kMergeCluster);
  return kinds;
}

std::string check_choice(const GpuRates& rates, const Choice& c) {
  if (std::string defect = c.shape.defect(); !defect.empty()) return defect;
  if (double(c.shape.shared_bytes + kStaticShared) > rates.shared_memory_bytes)
    return absl::StrCat("smem ", c.shape.shared_bytes + kStaticShared, " > ",
                        int64_t(rates.shared_memory_bytes));
  if (c.shape.in.threads > rates.max_threads)
    return absl::StrCat("threads ", c.shape.in.threads, " > ", int64_t(rates.max_threads));
  if (c.resident < 1) return "registers of a workgroup";
  return "";
}

CompileConfig config_of(const Choice& c) {
  const SkinnyInput& in = c.shape.in;
  CompileConfig config;
  config.kernel = "skinny";
  config.tile_m = config.register_m = static_cast<int32_t>(in.rows);
  config.tile_n = static_cast<int32_t>(in.tile_n);
  config.tile_k = static_cast<int32_t>(in.tile_k);
  config.register_n = static_cast<int32_t>(in.group);
  config.unroll_k = static_cast<int32_t>(in.unroll_k);
  config.threads = static_cast<int32_t>(in.threads);
  config.swap = in.matrix;
  config.split = c.split;
  if (c.split == kMergeCluster) config.cluster_k = static_cast<int32_t>(c.splits);
  return config;
}

}  // namespace

void enumerate_matmul_skinny(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const GpuRates rates(context.facts);
  const MatmulSizes sizes(context.problem);
  if (std::string reason = check_class(context); !reason.empty()) {
    CompileConfig config;
    config.kernel = "skinny";
    out->push_back(rejected(config, std::move(reason)));
    return;
  }
  for (const Row& r : kRows) {
    const SkinnyInput in = input_of(context.problem, r, sm_version(context.facts.target));
    int64_t before = 0;
    for (int64_t wanted : {1, 2, 4, 8, 16}) {
      if (context.split_k > 0) wanted = context.split_k;
      const int64_t splits = normalize_splits(sizes.k, wanted, SkinnyShape::kSplitMultiple);
      if (splits == before) continue;
      before = splits;
      for (int32_t split : kinds_of(context, splits))
        for (int64_t rounds : {1, 2, 4}) {
          const Choice choice = choose_tile(rates, in, splits, split, rounds);
          // More rounds than the groups of columns fill are the same plan again, and need no splits.
          if (rounds > 1 && splits > 1) continue;
          if (rounds > 1 && choice.workgroups <= slots_of(rates, choice) * (rounds / 2)) continue;
          const CompileConfig config = config_of(choice);
          if (std::string reason = check_choice(rates, choice); !reason.empty()) {
            out->push_back(rejected(config, std::move(reason)));
            continue;
          }
          RankedPlan plan;
          plan.plan.config = config;
          plan.plan.launch.splits = static_cast<int32_t>(splits);
          plan.plan.predicted_seconds = predict(rates, sizes, choice);
          plan.plan.resident = static_cast<int32_t>(choice.resident);
          plan.plan.numeric_recipe =
              absl::StrCat(in.matrix ? "mma " : "fma ", name_of_math(context.problem), "; K in units of ",
                           choice.shape.unit, " by turns to ", choice.shape.warps_k, " sums; ",
                           merge_recipe(static_cast<int32_t>(splits)));
          out->push_back(std::move(plan));
        }
    }
  }
}

}  // namespace lathe
