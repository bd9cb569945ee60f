// matmul on ROCm with matrix instructions (MFMA, WMMA): "mma" of 16 x 16 and "mma32" of 32 x 32. The rows of
// the tables are tiles.
#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/mma/shape.h"

namespace lathe {
namespace {

struct Row {
  int64_t tile_m, tile_n;
  int64_t warp_m, warp_n;
};
// A wave of 64 lanes holds twice the accumulators of a wave of 32 with the same registers per lane.
constexpr Row kWave64[] = {
    {256, 128, 64, 64}, {128, 256, 64, 64}, {128, 128, 64, 64}, {128, 128, 64, 32}, {128, 64, 64, 32},
    {64, 128, 32, 64},  {64, 256, 32, 128}, {256, 64, 64, 64},  {64, 64, 32, 32},   {64, 64, 64, 16},
    {128, 32, 32, 32},  {32, 128, 32, 32},  {32, 256, 32, 64},  {64, 32, 32, 16},   {32, 64, 16, 32},
    {32, 64, 32, 16},   {16, 64, 16, 16},   {16, 128, 16, 32},  {16, 256, 16, 64},
};
constexpr Row kWave32[] = {
    {128, 128, 64, 32}, {128, 128, 32, 64}, {128, 256, 64, 64}, {256, 128, 64, 64},
    {128, 64, 32, 32},  {64, 128, 32, 32},  {64, 64, 32, 32},   {64, 64, 32, 16},
    {64, 32, 16, 16},   {32, 128, 32, 32},  {32, 128, 16, 32},  {32, 64, 16, 32},
    {32, 64, 16, 16},   {16, 64, 16, 16},   {16, 128, 16, 32},  {16, 128, 16, 16},
};
// Depths of a block: in bytes of K, and in elements for instructions that take formats.
constexpr int64_t kDepths[] = {64, 128, 256};
constexpr int64_t kScaledDepths[] = {128, 256, 512};
// Limit for operands that pass through registers element by element: moving a deeper block takes longer than
// the latency that it would hide.
constexpr int64_t kMostStagedDepth = 128;
constexpr int32_t kStages = 2;

// Shared memory beside the stages: the last-arriver merge's ticket, and matmul_argmax's key for each row.
constexpr double kTicketBytes = 16, kKeyBytes = 8;
// A CDNA lane has 512 registers. Beyond 256 LLVM moves operands to accumulation registers, only one wave fits
// on a SIMD, and condition masks spill. The limit is below 256 because plans estimated near 250 also spilled.
constexpr int64_t kMostRegisters = 240;

// Share of the matrix rate that waits and address arithmetic leave, with one wave on each SIMD and with two
// or more (estimates; the loop alone would allow more, see tests/gpu/amd_sweep_test.cc).
constexpr double kAlone = 0.6, kShared = 0.8;
// LDS bandwidth of a CU: 32 banks of 4 bytes (CDNA2 and CDNA3 instruction set guides; RDNA3 and RDNA4 have 64
// banks for each pair of CUs). CDNA4 reads twice as much (its white paper: 256 bytes a clock); its writes are
// assumed to be as before.
constexpr double kSharedBytesPerCycle = 128;
double shared_reads_per_cycle(const Target& target) {
  return target.arch == "gfx950" ? 2 * kSharedBytesPerCycle : kSharedBytesPerCycle;
}
// From L2 into one CU: the width of CDNA2's port, half that of CDNA3 and CDNA4; an estimate for RDNA.
constexpr double kUnitL2BytesPerCycle = 64;
// L2 bandwidth of each CU when all read: 0.9 of 128 bytes a cycle for each channel (white papers: 32 channels
// for CDNA2's 110 CUs, 16 for 38 CUs of CDNA3 and 32 of CDNA4; RDNA is assumed to be like CDNA3).
double all_l2_bytes_per_cycle(const Target& target) {
  return target.arch == "gfx90a" ? 33 : target.arch == "gfx950" ? 57 : 48;
}
// Share of memory bandwidth that long streams reach, and latency under load (estimates).
constexpr double kMemoryEfficiency = 0.85, kLoadedMemorySeconds = 1.5e-6;
// Operands that pass through registers element by element: instructions per element, and the lanes for which
// a CU starts an instruction in a cycle (estimates).
constexpr double kStagedInstructions = 8, kStagedWidth = 64;
// The same for OCP numbers that are converted to FNUZ: 9 instructions per word of four (counted).
constexpr double kEncodingInstructions = 2.25;
// B in quantised blocks: instructions to decode and store an element (estimate, as on CUDA), and the share of the FMA
// rate at which sums are scaled (estimate).
constexpr double kDecodeInstructions = 4, kScalingRate = 0.5;
// L1 reads lines of memory, and the scales of a row are in a line of their own (CDNA3 white paper: 64 bytes a cycle).
constexpr double kLineBytes = 64;
// A block is requested while the previous one is multiplied, and most of it comes from L2 or the Infinity
// Cache. kBlockSeconds is its latency, kExposed the share of it that nothing hides (estimates).
constexpr double kBlockSeconds = 0.45e-6, kExposed = 0.1;
// Epilogue: cycles per element of the tile, and fixed cycles (estimates).
constexpr double kStoreCycles = 0.08, kStoreStartCycles = 1500;

MmaShape shape_of(const ProblemClass& c, const MatrixInstruction& t, const Row& r, int64_t depth) {
  MmaShape shape;
  shape.element_bytes = t.multiplies_codes() ? 1 : static_cast<int64_t>(size_of(multiplied_dtype(c.a)));
  shape.tile_m = r.tile_m, shape.tile_n = r.tile_n, shape.tile_k = depth / shape.element_bytes;
  shape.warp_m = r.warp_m, shape.warp_n = r.warp_n;
  shape.stages = kStages;
  shape.a_k_contiguous = c.trans_a == 0, shape.b_k_contiguous = c.trans_b != 0;
  shape.alignment = c.alignment;
  if (is_blocks(c.b)) shape.blocks = c.b;
  if (is_blocks(c.a)) shape.a_blocks = c.a;
  shape.set_instruction(t);
  return shape;
}

double unit_bytes(const MmaShape& s) { return s.shared_bytes() + kTicketBytes + kKeyBytes * s.tile_m; }

int32_t resident_of(const GpuRates& rates, const MmaShape& s) {
  return rates.resident(s.threads(), s.registers(), unit_bytes(s));
}

// Bytes that pass through registers take each word from four rows. With eight words per thread and 32 x 32
// accumulators, their addresses and conditions spill scalar registers on gfx90a, and only there.
bool has_too_many_addresses(const Target& target, const MmaShape& s) {
  const auto words = [&](int64_t width, bool k_contiguous) {
    return k_contiguous ? 0 : width * s.depth_bytes() / 4 / s.threads();
  };
  return target.arch == "gfx90a" && s.instruction.rows == 32 && s.element_bytes == 1 && !s.copies_chunks() &&
         std::max(words(s.tile_m, s.a_k_contiguous), words(s.tile_n, s.b_k_contiguous)) >= 8;
}

std::string check(const Target& target, const GpuRates& rates, const MatmulSizes& s, const Row& r,
                  const MmaShape& shape) {
  if (std::string defect = shape.defect(); !defect.empty()) return defect;
  if (!shape.uses_stages() && shape.depth_bytes() > kMostStagedDepth)
    return absl::StrCat("tile_k has ", shape.depth_bytes(), " bytes, at most ", kMostStagedDepth,
                        " if elements are copied one by one");
  if (has_too_many_addresses(target, shape))
    return "the addresses of 8-bit elements from several rows would spill registers";
  if (shape.has_blocks() && shape.depth_bytes() > kMostStagedDepth)
    return absl::StrCat("decoding blocks in stages of ", shape.depth_bytes(), " bytes would spill registers");
  if (shape.has_blocks() && shape.part_stages() > 2)
    return absl::StrCat("parts of ", shape.part_stages(), " stages would spill registers");
  const double shared = unit_bytes(shape);
  if (shared > rates.shared_memory_bytes)
    return absl::StrCat("smem ", int64_t(shared), " > ", int64_t(rates.shared_memory_bytes));
  if (shape.threads() > rates.max_threads)
    return absl::StrCat("threads ", shape.threads(), " > ", int64_t(rates.max_threads));
  const int64_t most = std::min<int64_t>(kMostRegisters, rates.registers / shape.threads());
  if (shape.registers() > most) return absl::StrCat("registers per thread ", shape.registers(), " > ", most);
  if (resident_of(rates, shape) < 1) return kNoPlace;
  if (r.tile_m > std::max<int64_t>(16, 2 * s.m)) return absl::StrCat("tile_m ", r.tile_m, " > 2 * M ", s.m);
  if (r.tile_n > std::max<int64_t>(64, 2 * s.n)) return absl::StrCat("tile_n ", r.tile_n, " > 2 * N ", s.n);
  return "";
}

// Tiles along M that consecutive workgroups take before they move on along N, so that the workgroups that run
// together cover about a square of D. 0: the launch order is as good for every M of the bucket.
int32_t raster_of(const ProblemClass& c, const Row& r, double workgroups) {
  const double square = std::sqrt(workgroups * r.tile_n / r.tile_m);
  const double rows = std::clamp(std::exp2(std::round(std::log2(square))), 1.0, 16.0);
  return std::ceil(double(c.m_hi) / r.tile_m) > rows ? static_cast<int32_t>(rows) : 0;
}

// Cycles to pass one K block's elements through registers, and to decode and scale it.
double staged_cycles(const GpuRates& rates, const MmaShape& s) {
  const double encoding = s.instruction.fnuz_of_ocp ? kEncodingInstructions : 0;
  const double rate = rates.flops / 2 / rates.units / rates.clock_hz * kScalingRate;
  if (s.multiplies_codes() && s.scales_sums())  // by the scale of A, then by that of B
    return 2 * double(s.tile_m * s.tile_n) * double(s.tile_k) / double(s.scaled()) / rate +
           double(s.tile_m + s.tile_n) * double(s.tile_k) * encoding / kStagedWidth;
  if (!s.has_blocks()) {
    const double instructions = (s.copies_chunks() ? 0 : kStagedInstructions) + encoding;
    return double(s.tile_m + s.tile_n) * double(s.tile_k) * instructions / kStagedWidth;
  }
  const double copied =
      s.has_a_blocks() || s.copies_chunks_of_a() ? 0 : double(s.tile_m) * kStagedInstructions;
  const double decoded = double(s.tile_n + (s.has_a_blocks() ? s.tile_m : 0)) * kDecodeInstructions;
  const double fmas = double(s.tile_m * s.tile_n * (s.scale_words() + s.has_a_blocks())) * double(s.tile_k) /
                      double(s.scaled());
  return (copied + decoded) * double(s.tile_k) / kStagedWidth + fmas / rate;
}

double predict(const CandidateContext& context, const GpuRates& rates, const MatmulSizes& s,
               const MmaShape& shape, const Row& r, double splits, int32_t split) {
  const MatrixInstruction& t = shape.instruction;
  const Target& target = context.facts.target;
  const double tiles_m = std::ceil(double(s.m) / r.tile_m), tiles_n = std::ceil(double(s.n) / r.tile_n);
  const double tiles = tiles_m * tiles_n * splits;
  const double steps = std::ceil(std::ceil(double(s.k) / splits) / double(shape.tile_k));
  const double per_unit = std::ceil(tiles / rates.units), active = std::min(tiles, rates.units);
  const double resident = resident_of(rates, shape), together = std::min(resident, per_unit);

  // Cycles of one block of K of one tile.
  const double k_of_instruction =
      double(shape.tile_k) / double(shape.steps() * shape.scaled_steps() * t.products());
  // Where blocks have minima, the rows of A are summed too.
  const int64_t fragments = shape.fragment_columns() + (shape.has_blocks() ? shape.scale_words() - 1 : 0);
  const double instructions =
      double(shape.fragment_rows() * fragments) * double(shape.tile_k) / k_of_instruction;
  const double waves = together * shape.warps() / rates.simds();
  const double efficiency = waves >= 2 ? kShared : kAlone + (kShared - kAlone) * std::max(0.0, waves - 1);
  const double on_simds = std::min(double(shape.warps()) * together, rates.simds()) / together;
  const double products = instructions * shape.warps() * t.cycles / on_simds / efficiency;
  const double row_a = shape.row_bytes_of_a(), row_b = shape.row_bytes_of_b();
  const double reads =
      shape.warps() * (double(r.warp_m) * row_a + double(r.warp_n) * row_b) * (t.groups == 1 ? 2 : 1);
  const double written_to_shared = double(r.tile_m) * row_a + double(r.tile_n) * row_b;
  const double shared = reads / shared_reads_per_cycle(target) + written_to_shared / kSharedBytesPerCycle;
  const double compute =
      per_unit * steps * (std::max(products, shared) + staged_cycles(rates, shape)) / rates.clock_hz;
  const double block_bytes = double(shape.tile_k) * (r.tile_m * s.input_bytes + r.tile_n * s.b_bytes);
  const double of_scales = shape.multiplies_codes() ? double(r.tile_m + r.tile_n) * kLineBytes : 0;
  const double from_l2 =
      std::max(per_unit / kUnitL2BytesPerCycle, tiles / (all_l2_bytes_per_cycle(target) * rates.units)) *
      steps * (block_bytes + of_scales) / rates.clock_hz;

  // Each operand is read from memory once if L2 holds both, else once for each wave of tiles that run
  // together.
  const double slots = rates.units * resident;
  const double raster = raster_of(context.problem, r, slots),
               high = raster > 0 ? raster : std::min(tiles_m, slots);
  const double wide = std::max(1.0, std::min(tiles, slots) / high);
  const double inputs = (double(s.m) * s.input_bytes + double(s.n) * s.b_bytes) * double(s.k);
  const double by_waves = std::max(1.0, tiles / slots) *
                          (high * r.tile_m * s.input_bytes + wide * r.tile_n * s.b_bytes) * double(s.k);
  const double read = inputs <= rates.l2_bytes / 2 ? inputs : std::max(inputs, by_waves);
  const double written = double(s.m) * s.n * (splits > 1 ? 4 * splits : s.output_bytes);
  const double in_flight = together * block_bytes;
  const double memory = (read + written) / std::min(kMemoryEfficiency * rates.memory_bytes_per_second,
                                                    active * in_flight / kLoadedMemorySeconds);
  const double latency = std::ceil(per_unit / together) * steps * kBlockSeconds;
  const double store = (r.tile_m * r.tile_n * kStoreCycles + kStoreStartCycles) / rates.clock_hz;
  return rates.launch_seconds + kMemorySeconds + std::max({compute, from_l2, memory, latency}) +
         kExposed * latency + std::ceil(per_unit / together) * store +
         gpu_merge_seconds(rates, s, splits, split, tiles_m * tiles_n);
}

// Why the target has no such instruction or the family does not support the class, "" if it does.
std::string refusal(const CandidateContext& context, const MatrixInstruction* t, KernelKind family,
                    int64_t edge) {
  const ProblemClass& c = context.problem;
  if (c.a == DType::kF32 && is_blocks(c.b)) return "f32 by blocks would be rounded";
  if (!t) {
    const absl::string_view arch = context.facts.target.arch;
    const absl::string_view why = arch == "gfx942" && c.a == DType::kF8E5M2
                                      ? ": its 8-bit floats are FNUZ, which has no infinities"
                                      : "";
    return absl::StrCat(arch, " has no matrix instruction of ", edge, " x ", edge, " for ", name_of(c.a),
                        why);
  }
  return invariance_refusal(context, family);
}

std::string recipe_of(const ProblemClass& c, const MatrixInstruction& t, int32_t splits) {
  if (c.a == DType::kI8) return kExactRecipe;
  const int64_t k = t.applies_scales() ? t.groups * MatrixInstruction::kCodes
                    : t.multiplies_codes()
                        ? t.step_bytes()
                        : t.step_bytes() / static_cast<int64_t>(size_of(multiplied_dtype(c.a)));
  const std::string scaled = t.applies_scales() ? absl::StrCat(" by ", name_of(c.b), " with their scales")
                             : is_blocks(c.b) ? absl::StrCat(" by codes of ", name_of(c.b), ", scaled in f32")
                                              : std::string();
  return absl::StrCat("mma ", t.rows, " x ", t.columns, " ", name_of(c.a), t.fnuz_of_ocp ? " as fnuz" : "",
                      " to f32", scaled, "; K ascending in steps of ", k, "; ", merge_recipe(splits));
}

// Appends a plan for every split worth pricing, or one rejected plan with the reason. `r` and `shape`
// describe the tile of `config`, an MmaConfig or an MmaUkernelConfig.
template <typename Config>
void append_tile(const CandidateContext& context, const Row& r, const MmaShape& shape, Config config,
                 const UkernelRef& ukernel, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const GpuRates rates(context.facts);
  const MatmulSizes s(c);
  if (std::string reason = check(context.facts.target, rates, s, r, shape); !reason.empty())
    return out->push_back(rejected({config, ukernel}, std::move(reason)));
  const double slower = ukernel.function.empty() ? 1 : kUkernelSeconds;
  config.threads = shape.threads();
  Plan plan;
  plan.resident = resident_of(rates, shape);
  config.raster = raster_of(c, r, rates.units * plan.resident);
  plan.config = {config, ukernel};
  append_mma_splits(
      context, s, shape, std::move(plan),
      [&](int32_t splits, int32_t split) {
        return slower * predict(context, rates, s, shape, r, splits, split);
      },
      [&](int32_t splits) { return recipe_of(c, shape.instruction, splits); }, out);
}

void enumerate(const CandidateContext& context, KernelKind kernel, int64_t edge,
               std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  MmaConfig config{kernel};
  const MatrixInstruction* t = find_mma_instruction(context.facts.target.arch, c.a, c.b, edge);
  if (std::string reason = refusal(context, t, kernel, edge); !reason.empty()) {
    out->push_back(rejected(config, std::move(reason)));
    return;
  }
  const bool wave64 = t->wave() == 64;
  const Row* rows = wave64 ? kWave64 : kWave32;
  for (size_t i = 0; i < (wave64 ? std::size(kWave64) : std::size(kWave32)); ++i)
    for (int64_t depth : t->multiplies_codes() && t->takes_formats() ? kScaledDepths : kDepths) {
      const Row& r = rows[i];
      const MmaShape shape = shape_of(c, *t, r, depth);
      config.tile_m = r.tile_m, config.tile_n = r.tile_n, config.tile_k = shape.tile_k;
      config.register_m = r.warp_m, config.register_n = r.warp_n;
      config.stages = kStages;
      append_tile(context, r, shape, config, {}, out);
    }
}

}  // namespace

void enumerate_matmul_mma_rocm(const CandidateContext& context, std::vector<RankedPlan>* out) {
  enumerate(context, KernelKind::kMma, 16, out);
  enumerate(context, KernelKind::kMma32, 32, out);
}

void append_mfma_ukernel(const CandidateContext& context, const CompileConfig& ukernel,
                         std::vector<RankedPlan>* out) {
  const auto& config = ukernel.as<MmaUkernelConfig>();
  const ProblemClass& c = context.problem;
  const MatrixInstruction* t = find_amd_instruction(context.facts.target.arch, c.a, 16);
  if (std::string reason = refusal(context, t, KernelKind::kMma, 16); !reason.empty())
    return out->push_back(rejected(ukernel, std::move(reason)));
  const Row row = {config.tile_m, config.tile_n, config.register_m, config.register_n};
  const int64_t depth = config.stage_k * static_cast<int64_t>(size_of(c.a));
  append_tile(context, row, shape_of(c, *t, row, depth), config, ukernel.ukernel, out);
}

}  // namespace lathe
