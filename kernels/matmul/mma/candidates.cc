// "mma" on CUDA: matmul with warp-level tensor core instructions (mma.sync). The rows of the table are tiles;
// the number of stages and the splits are enumerated for each.
#include "kernels/matmul/candidates.h"

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/mma/shape.h"

namespace lathe {
namespace {

struct Row {
  int64_t tile_m, tile_n;
  int64_t depth;  // bytes of K in a stage
  int64_t warp_m, warp_n;
};
constexpr Row kRows[] = {
    {256, 128, 64, 64, 64},
    {128, 256, 64, 64, 64},
    {128, 128, 64, 64, 64},
    {128, 128, 128, 64, 64},
    {128, 128, 64, 64, 32},
    {128, 128, 128, 64, 32},
    {256, 64, 64, 64, 64},
    {64, 256, 64, 64, 64},
    {128, 64, 64, 64, 32},
    {128, 64, 128, 64, 32},
    {64, 128, 64, 32, 64},
    {64, 128, 128, 32, 64},
    {64, 128, 128, 32, 32},
    {128, 32, 128, 32, 32},
    {64, 64, 128, 32, 32},
    {64, 64, 128, 32, 16},
    // Small parts per thread, which also suit operands that pass through registers.
    {128, 64, 64, 32, 32},
    {64, 64, 64, 32, 32},
    {64, 64, 64, 32, 16},
    {64, 32, 64, 16, 16},
    // Few rows: the weight is streamed, and the warps lie side by side along N.
    {32, 128, 128, 32, 32},
    {32, 64, 128, 16, 32},
    {32, 64, 64, 16, 16},
    {32, 256, 128, 32, 64},
    {16, 256, 128, 16, 64},
    {16, 128, 128, 16, 32},
    {16, 128, 128, 16, 16},
    {16, 64, 128, 16, 16},
    {16, 64, 64, 16, 16},
};
constexpr int64_t kMostStages = 5;
constexpr int32_t kMostResident = 4;

// Static shared memory for the ticket of the last-arriver merge, and shared memory that the system reserves
// per workgroup (CUDA Programming Guide, compute capability 8.0 and later).
constexpr double kTicketBytes = 16, kReservedBytes = 1 << 10;

// Share of the matrix rate that mma.sync reaches (estimates). Ampere, Ada and consumer Blackwell have no
// other matrix instruction, and large products reach about 0.85. On Hopper mma.sync has 0.6 to 0.65 of
// wgmma's rate, and datacenter Blackwell reaches its full rate only with tcgen05.
double matrix_efficiency(int sm) {
  if (sm >= 100 && sm < 120) return 0.3;
  return sm >= 90 && sm < 100 ? 0.5 : 0.85;
}
// Warps that keep the tensor cores of an SM's four schedulers busy, if each has an instruction that does not
// depend on its previous one (estimate).
constexpr double kBusyWarps = 8;
constexpr double kSharedBytesPerCycle = 128;
// From L2 into one SM: the width of its port, and about what each SM gets when all read (A100 whitepaper:
// 5120 bytes a cycle for 108 SMs; half of that is sustained, which is an estimate).
constexpr double kUnitL2BytesPerCycle = 64, kAllL2BytesPerCycle = 24;
constexpr double kMemoryEfficiency = 0.9,
                 kLoadedMemorySeconds = 1e-6;  // estimates: share that long streams reach; latency under load
// Operands that pass through registers: instructions per element (addresses, packing, storing) and per load
// (compare, clear, load), counted in the loop of a 16x128x64 tile; and loads that start in a cycle.
constexpr double kStagedInstructions = 4, kLoadInstructions = 3, kLoadsPerCycle = 32;
// B in quantised blocks: instructions to decode and store an element (counted in PTX), and the share of the FMA rate at
// which sums are scaled while the tensor cores work (estimate).
constexpr double kDecodeInstructions = 4, kScalingRate = 0.5;
// Share of a K block's latency that neither other warps nor other workgroups hide (estimate).
constexpr double kExposed = 0.1;
// Epilogue: cycles per element of the tile, and fixed cycles (estimates: about 10 instructions per 8
// elements, on four schedulers).
constexpr double kStoreCycles = 0.06, kStoreStartCycles = 1000;

MmaShape shape_of(const ProblemClass& c, const Row& r, int64_t stages) {
  MmaShape shape;
  shape.element_bytes = size_of(multiplied_dtype(c.a));
  shape.tile_m = r.tile_m, shape.tile_n = r.tile_n, shape.tile_k = r.depth / shape.element_bytes;
  shape.warp_m = r.warp_m, shape.warp_n = r.warp_n;
  shape.stages = stages;
  shape.a_k_contiguous = c.trans_a == 0, shape.b_k_contiguous = c.trans_b != 0;
  shape.alignment = c.alignment;
  if (is_blocks(c.b)) shape.blocks = c.b;
  if (is_blocks(c.a)) shape.a_blocks = c.a;
  return shape;
}

double unit_bytes(const MmaShape& s) { return s.shared_bytes() + kTicketBytes + kReservedBytes; }

// Workgroups that fit on one SM together.
double resident_of(const GpuRates& rates, const MmaShape& s) {
  const double registers = round_up(s.registers(), 8) * s.threads();
  return std::max(1.0,
                  std::floor(std::min({(rates.shared_memory_bytes + kReservedBytes) / unit_bytes(s),
                                       rates.registers / registers, rates.threads_per_unit / s.threads()})));
}

// The largest number of stages that leaves room for `resident` workgroups on an SM.
MmaShape fill(const ProblemClass& c, const Row& r, const GpuRates& rates, int32_t resident) {
  int64_t stages = shape_of(c, r, kMostStages).uses_stages() ? kMostStages : MmaShape::kStagedStages;
  const double room = (rates.shared_memory_bytes + kReservedBytes) / resident;
  while (stages > 2 && unit_bytes(shape_of(c, r, stages)) > room) --stages;
  return shape_of(c, r, stages);
}

std::string check(const GpuRates& rates, const MatmulSizes& s, const Row& r, const MmaShape& shape) {
  if (std::string defect = shape.defect(); !defect.empty()) return defect;
  const double shared = shape.shared_bytes() + kTicketBytes;
  if (shared > rates.shared_memory_bytes)
    return absl::StrCat("smem ", int64_t(shared), " > ", int64_t(rates.shared_memory_bytes));
  if (shape.threads() > rates.max_threads)
    return absl::StrCat("threads ", shape.threads(), " > ", int64_t(rates.max_threads));
  constexpr int64_t kMostRegisters = 255;  // CUDA Programming Guide, table of technical specifications
  if (shape.registers() > kMostRegisters)
    return absl::StrCat("registers per thread ", shape.registers(), " > ", kMostRegisters);
  if (double(shape.registers()) * shape.threads() > rates.registers)
    return absl::StrCat("registers per workgroup ", shape.registers() * shape.threads(), " > ",
                        int64_t(rates.registers));
  if (r.tile_m > std::max<int64_t>(16, 2 * s.m)) return absl::StrCat("tile_m ", r.tile_m, " > 2 * M ", s.m);
  if (r.tile_n > std::max<int64_t>(64, 2 * s.n)) return absl::StrCat("tile_n ", r.tile_n, " > 2 * N ", s.n);
  return "";
}

// Relative to f16's rate.
double relative_rate(DType t, const Target& target) {
  if (t == DType::kF32) return 0.5;
  return size_of(t) == 1 && !(is_f8(t) && widens_f8(target.arch)) ? 2 : 1;
}

// Tiles along M that consecutive workgroups take before they move on along N, so that the workgroups that run
// together cover about a square of D. 0: the launch order is as good for every M of the bucket.
int32_t raster_of(const ProblemClass& c, const Row& r, double workgroups) {
  const double square = std::sqrt(workgroups * r.tile_n / r.tile_m);
  const double rows = std::clamp(std::exp2(std::round(std::log2(square))), 1.0, 16.0);
  return std::ceil(double(c.m_hi) / r.tile_m) > rows ? static_cast<int32_t>(rows) : 0;
}

// Cycles to pass one K block's elements through registers.
double staged_cycles(const GpuRates& rates, const MmaShape& s) {
  const bool plain_b = !s.has_blocks() && !s.copies_chunks(s.b_k_contiguous);
  const bool plain_a = !s.has_a_blocks() && !s.copies_chunks(s.a_k_contiguous);
  const double elements = double(s.tile_k) * double((plain_a ? s.tile_m : 0) + (plain_b ? s.tile_n : 0));
  const double loads = double(s.loads_of_element());
  const double lines = (s.has_blocks() ? double(s.tile_n) : 0) + (s.has_a_blocks() ? double(s.tile_m) : 0),
               decoded = double(s.tile_k) * lines * kDecodeInstructions;
  return elements * std::max((kStagedInstructions + loads * kLoadInstructions) / rates.wave / kIssuePerCycle,
                             loads / kLoadsPerCycle) +
         decoded / rates.wave / kIssuePerCycle;
}
// Cycles to scale the sums of one K block.
double scaling_cycles(const GpuRates& rates, const MmaShape& s) {
  if (!s.has_blocks()) return 0;
  const double fmas =
      double(s.tile_m) * s.tile_n * (double(s.tile_k) / s.scaled()) * (s.scale_words() + s.has_a_blocks());
  return fmas / (rates.flops / 2 / rates.units / rates.clock_hz * kScalingRate);
}

double predict(const CandidateContext& context, const GpuRates& rates, const MatmulSizes& s,
               const MmaShape& shape, const Row& r, double splits, int32_t split) {
  const double tiles_m = std::ceil(double(s.m) / r.tile_m), tiles_n = std::ceil(double(s.n) / r.tile_n);
  const double tiles = tiles_m * tiles_n * splits;
  const double steps = std::ceil(std::ceil(double(s.k) / splits) / double(shape.tile_k));
  const double per_unit = std::ceil(tiles / rates.units), active = std::min(tiles, rates.units);
  const double resident = resident_of(rates, shape), together = std::min(resident, per_unit);
  const double depth = shape.depth_bytes(), elements = double(r.tile_m + r.tile_n) * shape.tile_k;

  // Cycles of one block of K of one tile.
  const DType type = multiplied_dtype(context.problem.a);
  const Target& target = context.facts.target;
  const double matrix =
      context.facts.fact_or("flops_matrix_f16", 8 * rates.flops) * relative_rate(type, target);
  const double busy = 0.75 + 0.25 * std::min(1.0, together * shape.warps() / kBusyWarps);
  const double products = 2.0 * r.tile_m * r.tile_n * shape.tile_k / (matrix / rates.units / rates.clock_hz) /
                          (matrix_efficiency(sm_version(target)) * busy);
  const double shared =
      (shape.warps() * (r.warp_m + r.warp_n) * depth + elements * s.input_bytes) / kSharedBytesPerCycle;
  const double compute =
      per_unit * steps *
      (std::max(products, shared) + staged_cycles(rates, shape) + scaling_cycles(rates, shape)) /
      rates.clock_hz;
  const double stage_bytes = shape.tile_k * (r.tile_m * s.input_bytes + r.tile_n * s.b_bytes);
  const double from_l2 =
      std::max(per_unit / kUnitL2BytesPerCycle, tiles / (kAllL2BytesPerCycle * rates.units)) * steps *
      stage_bytes / rates.clock_hz;

  const double slots = rates.units * resident, raster = raster_of(context.problem, r, slots);
  const double read = gpu_read_bytes(rates, s, {double(r.tile_m), double(r.tile_n), splits}, slots,
                                     raster > 0 ? raster : tiles_m);
  const double written = double(s.m) * s.n * (splits > 1 ? 4 * splits : s.output_bytes);
  const double in_flight = together * double(shape.stages - 1) * stage_bytes;
  const double memory = (read + written) / std::min(kMemoryEfficiency * rates.memory_bytes_per_second,
                                                    active * in_flight / kLoadedMemorySeconds);
  // A workgroup waits for memory once in every (stages - 1) blocks, however few bytes it requests.
  const double latency = std::ceil(per_unit / together) * steps * kMemorySeconds / double(shape.stages - 1);
  const double store = (r.tile_m * r.tile_n * kStoreCycles + kStoreStartCycles) / rates.clock_hz;
  return rates.launch_seconds + kMemorySeconds + std::max({compute, from_l2, memory, latency}) +
         kExposed * latency + std::ceil(per_unit / together) * store +
         gpu_merge_seconds(rates, s, splits, split, tiles_m * tiles_n);
}

// Rejects tiles for which ptxas 13.0 spills registers. 8-bit floats that are widened to f16: more than 64 x 32
// accumulators in a warp, fewer if stages are deep or elements pass through registers. 16-bit operands along M and N
// that both pass through registers: more than 8 words per thread. If the number of rows is known only on the device:
// bytes of B along N that pass through registers, more than 32 words per thread, and more than 8 chunks per thread
// whose bytes depend on K. B in NVFP4: ptxas needs more registers than the shape's estimate, for the two scales of each
// piece of 32 elements, and still more if A passes through registers.
std::string spill_refusal(const CandidateContext& context, const Row& r, const MmaShape& shape) {
  const ProblemClass& c = context.problem;
  const bool staged = !shape.copies_chunks();
  if (is_f8(c.a) && widens_f8(context.facts.target.arch)) {
    const bool deep = r.depth > 64;
    const int64_t sums = int64_t{r.warp_m} * r.warp_n, most = staged && deep   ? 512
                                                              : staged || deep ? 1024
                                                                               : 2048;
    if (sums > most)
      return absl::StrCat("a warp with ", sums, " accumulators would spill registers for ", name_of(c.a),
                          " on ", context.facts.target.arch, "; the limit is ", most);
  }
  constexpr int64_t kMostRegisters = 255;
  const int64_t more = shape.has_a_blocks() || shape.copies_chunks_of_a() ? 48 : 72;
  if (c.b == DType::kNVF4E2M1 && shape.registers() + more > kMostRegisters)
    return absl::StrCat("a warp of ", r.warp_m, " x ", r.warp_n, " would spill registers for ", name_of(c.b));
  const bool passes_words =
      shape.has_blocks() ? !shape.has_a_blocks() && !shape.copies_chunks(shape.a_k_contiguous) : staged;
  if (c.rows != Rows::kPlain && passes_words) {
    const int64_t lines = r.tile_m + (shape.has_blocks() ? 0 : r.tile_n);
    const int64_t words = lines * r.depth / 4 / shape.threads();
    if (words > 32)
      return absl::StrCat("rows ", std::string(name_of(c.rows)), ": copying ", words,
                          " words per thread would spill registers; the limit is 32");
    if (shape.element_bytes == 1 && !shape.b_k_contiguous)
      return absl::StrCat("rows ", std::string(name_of(c.rows)), ": transposing ", name_of(c.a),
                          " in registers would spill");
  } else if (c.rows != Rows::kPlain && c.k * shape.element_bytes % 16 != 0) {
    const int64_t chunks = (r.tile_m + r.tile_n) * r.depth / 16 / shape.threads();
    if (chunks > 8)
      return absl::StrCat("rows ", std::string(name_of(c.rows)), ": copying ", chunks,
                          " chunks per thread that K may cut would spill registers; the limit is 8");
  }
  if (staged && shape.element_bytes == 2 && !shape.a_k_contiguous && !shape.b_k_contiguous) {
    const int64_t words = std::min(r.tile_m, r.tile_n) * r.depth / 4 / shape.threads();
    if (words > 8)
      return absl::StrCat("copying ", words,
                          " words per thread and operand would spill registers; the limit is 8");
  }
  return "";
}

// Why the family does not support the class, "" if it does.
std::string refusal(const CandidateContext& context) {
  const ProblemClass& c = context.problem;
  const int sm = sm_version(context.facts.target);
  if (sm < 80)
    return absl::StrCat(context.facts.target.arch, " has no asynchronous copies, needs sm_80 or later");
  if (c.a == DType::kF32 && is_blocks(c.b)) return "f32 by blocks would be rounded";
  if (c.a == DType::kF32 && c.math != Math::kTf32) return "math strict forbids rounding f32 to tf32";
  if (is_fnuz(c.a) || (is_f8(c.a) && sm < 89))
    return absl::StrCat(context.facts.target.arch, " has no mma instruction for ", name_of(c.a));
  return invariance_refusal(context, KernelKind::kMma);
}

std::string recipe_of(const ProblemClass& c, int32_t splits) {
  if (c.a == DType::kI8) return kExactRecipe;
  const DType multiplied = multiplied_dtype(c.a);
  const int64_t step = kMmaSyncInstruction.step_bytes() / static_cast<int64_t>(size_of(multiplied));
  const std::string of_a = is_blocks(c.a) ? absl::StrCat(" codes of ", name_of(c.a)) : std::string(),
                    scaled = is_blocks(c.b) ? absl::StrCat(" by codes of ", name_of(c.b), ", scaled in f32")
                                            : std::string();
  return absl::StrCat("mma ", c.a == DType::kF32 ? "tf32" : name_of(multiplied), of_a, " to f32", scaled,
                      "; K ascending in steps of ", step, "; ", merge_recipe(splits));
}

// Appends a plan for every split worth pricing, or one rejected plan with the reason. `r` and `shape`
// describe the tile of `config`, an MmaConfig or an MmaUkernelConfig.
template <typename Config>
void append_tile(const CandidateContext& context, const Row& r, const MmaShape& shape, Config config,
                 const UkernelRef& ukernel, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const GpuRates rates(context.facts);
  const MatmulSizes s(c);
  config.raster = raster_of(c, r, rates.units * resident_of(rates, shape));
  std::string reason = check(rates, s, r, shape);
  if (reason.empty()) reason = spill_refusal(context, r, shape);
  if (!reason.empty()) return out->push_back(rejected({config, ukernel}, std::move(reason)));
  const double slower = ukernel.function.empty() ? 1 : kUkernelSeconds;
  Plan plan;
  plan.config = {config, ukernel};
  plan.resident = static_cast<int32_t>(resident_of(rates, shape));
  append_mma_splits(
      context, s, shape, std::move(plan),
      [&](int32_t splits, int32_t split) {
        return slower * predict(context, rates, s, shape, r, splits, split);
      },
      [&](int32_t splits) { return recipe_of(c, splits); }, out);
}

}  // namespace

void enumerate_matmul_mma(const CandidateContext& context, std::vector<RankedPlan>* out) {
  MmaConfig config;
  if (std::string reason = refusal(context); !reason.empty()) {
    out->push_back(rejected(config, std::move(reason)));
    return;
  }
  const GpuRates rates(context.facts);
  for (const Row& r : kRows) {
    int64_t stages_before = 0;
    for (int32_t resident = 1; resident <= kMostResident; ++resident) {
      const MmaShape shape = fill(context.problem, r, rates, resident);
      if (shape.stages == stages_before) continue;  // same plan as for fewer resident workgroups
      stages_before = shape.stages;
      config.tile_m = r.tile_m, config.tile_n = r.tile_n, config.tile_k = shape.tile_k;
      config.register_m = r.warp_m, config.register_n = r.warp_n;
      config.threads = shape.threads();
      config.stages = shape.stages;
      append_tile(context, r, shape, config, {}, out);
    }
  }
}

void append_mma_ukernel(const CandidateContext& context, const CompileConfig& ukernel,
                        std::vector<RankedPlan>* out) {
  const auto& config = ukernel.as<MmaUkernelConfig>();
  const auto element_bytes = static_cast<int64_t>(size_of(multiplied_dtype(context.problem.a)));
  const Row row = {config.tile_m, config.tile_n, config.stage_k * element_bytes, config.register_m,
                   config.register_n};
  append_tile(context, row, shape_of(context.problem, row, config.stages), config, ukernel.ukernel, out);
}

}  // namespace lathe
