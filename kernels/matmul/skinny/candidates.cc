// "skinny": matmul on GPUs for at most 16 rows of A. The weights are streamed once, so a plan is as good as
// the bytes it keeps in flight on every SM or CU from start to end. tile_n is not in the table: it is chosen
// so that N is divided evenly among the workgroups that run at once.
#include "kernels/matmul/candidates.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/matrix_instruction.h"
#include "kernels/matmul/skinny/lane_product.h"
#include "kernels/matmul/skinny/shape.h"

namespace lathe {
namespace {

struct Row {
  int32_t threads;
  int32_t warps_n;   // warps along N; the others lie along K
  int32_t unroll_k;  // units that each warp keeps in flight
};
// More warps along N reduce A's share of the L2 traffic; more warps along K make the groups of columns
// smaller and so the shares of N more even. 128 registers hold three units beside the accumulators; four
// spill on some targets.
constexpr Row kRows[] = {
    {256, 1, 3}, {256, 2, 3}, {256, 4, 3}, {256, 8, 3}, {512, 1, 3},
    {512, 2, 3}, {512, 4, 3}, {128, 1, 3}, {128, 4, 3},
};
// AMD keeps more waves on a CU, so that one or two units per wave are enough.
constexpr Row kAmdRows[] = {
    {128, 1, 2}, {256, 1, 1}, {256, 1, 2}, {256, 2, 1}, {256, 2, 2}, {256, 4, 1},  {256, 4, 2},
    {512, 1, 1}, {512, 1, 2}, {512, 2, 1}, {512, 2, 2}, {512, 4, 1}, {1024, 1, 1}, {1024, 1, 2},
};

// --- What an SM or CU delivers; estimates if no source is named.
constexpr double kGroupsPerUnit = 16;  // CUDA: limit of workgroups on an SM, more than any row needs
struct Model {
  // Shared memory beside the family's own: the ticket's word and, for matmul_argmax, a key for each row; and
  // what the system reserves for each workgroup.
  int64_t static_shared;
  double reserved_shared;
  double loaded_seconds;  // latency of a load under full traffic
  double reachable;       // share of the nominal memory rate that streaming reads reach
  // Bandwidth from L2 to one SM or CU: if it reads alone, and if all read.
  double unit_bytes_per_cycle, all_units_bytes_per_cycle;
  double reduce_cycles;               // adding the warps' sums at the end of a group
  double start_seconds, end_seconds;  // launch to first load; last product to last store
};
// The static part is rounded up to 1024 bytes, the alignment of the dynamic part (as ptxas counts it), and
// the system reserves as much again (CUDA Programming Guide, sm_80 and later). A load takes 0.6 us alone and
// 0.9 us under full traffic. L2 gives an SM 64 bytes a cycle nominally and about half of it in practice.
// Memory: docs/gpu-speed.md.
constexpr Model kCudaModel = {1024, 1024, 0.9e-6, 0.835, 32, 33, 400, 0, 0.1e-6};
// CDNA3 white paper: each L1 gets 64 bytes a cycle, and half of that is assumed sustained; each XCD's L2
// gives its 38 CUs 2 KB a cycle. The memory rate is that of "mma" (mma/candidates_rocm.cc).
constexpr Model kAmdModel = {16 + 8 * SkinnyShape::kMaxRows, 0, 1.5e-6, 0.85, 32, 48, 800, 0.3e-6, 0.5e-6};
const Model& model_of(bool amd) { return amd ? kAmdModel : kCudaModel; }

// Instructions to decode an element of a block format, with its share of the scales (estimate).
constexpr double kDecodeInstructions = 6;
// CUDA: cycles of a warp that none of its loads hide: for each unit, and for each unit and 8 rows of A.
constexpr double kUnitCycles = 60, kUnitCyclesPerRows = 50;
// CUDA: bytes a cycle at which an SM stages A before its first product (docs/gpu-speed.md).
constexpr double kStagedBytesPerCycle = 16;
// AMD: limit of a thread's registers; beyond it only one wave fits on a SIMD.
constexpr int64_t kMostAmdRegisters = 256;
// AMD: share of a CU's L2 reads and products that waiting for memory does not hide.
constexpr double kExposed = 0.05;
// AMD: share of the SIMDs' issue rate that waits and address arithmetic leave.
constexpr double kIssued = 0.7;

// AMD: how a plan of this form multiplies; one of the two pointers is null.
struct AmdForm {
  const MatrixInstruction* instruction = nullptr;
  const LaneProduct* lanes = nullptr;
  bool packs = false;  // two FMAs in one instruction
};

// Registers of a thread on AMD, for units in flight, accumulators, operands, addresses and the rest: what
// LLVM needs or somewhat more, checked for every row of the table.
double amd_registers(const SkinnyShape& s, const AmdForm& form) {
  const double rows = double(s.in.rows);
  if (form.instruction) {
    const double rest = s.in.wave == 32 ? 58 : 48;
    return s.in.unroll_k * 2 * SkinnyShape::kUnitRegisters + form.instruction->sums() + rest;
  }
  const bool dots = form.lanes->kind == LaneProduct::kDot;
  const double unit =
      SkinnyShape::kUnitRegisters + rows * (s.in.k_major ? SkinnyShape::kVector / 4 : s.in.element_bytes);
  const double sums =
      rows * (s.in.k_major ? SkinnyShape::kUnitVectors * (form.packs ? 2 : 1) : s.per_vector());
  // The lanes add their sums while the next units are in flight.
  const double rest = s.in.blocks ? 104 : !dots ? 56 : s.in.wave == 32 ? 48 : 40;
  return s.in.unroll_k * unit + 1.75 * sums + rest;
}

// Cycles for which a wave's unit keeps a SIMD of AMD busy.
double amd_unit_cycles(const SkinnyShape& s, const AmdForm& form) {
  constexpr double kVectors = SkinnyShape::kUnitVectors, kRegisters = SkinnyShape::kUnitRegisters;
  const double rows = double(s.in.rows), issue = s.in.wave == 64 ? 4 : 1;  // CDNA's SIMDs have 16 lanes
  const double addresses = 2 * (kVectors + (form.instruction ? kVectors : rows));
  if (form.instruction) {
    const double reads = kVectors * SkinnyShape::kVector / double(form.instruction->read_bytes());
    return reads * form.instruction->products() * form.instruction->cycles + issue * addresses;
  }
  double products = kRegisters * rows;
  if (form.lanes->kind == LaneProduct::kDot) {
    // Along N the elements of four rows are sorted by permutes: one step for 16-bit elements, two for bytes.
    if (!s.in.k_major) products += kRegisters * (s.in.element_bytes == 1 ? 2 : 1);
  } else {
    const double widening =
        s.in.element_bytes == 2 ? 2 * kRegisters + 2 * rows * (s.in.k_major ? kVectors : 2) : 0;
    products = products * (4 / s.in.element_bytes) / (form.packs ? 2 : 1) + widening;
  }
  return issue * (products + addresses + (s.in.blocks ? kDecodeInstructions * kRegisters : 0));
}

double resident_of(const GpuRates& rates, const SkinnyShape& s, const AmdForm& form) {
  const Model& model = model_of(s.in.amd);
  if (s.in.amd)
    return rates.resident(s.in.threads, static_cast<int64_t>(std::ceil(amd_registers(s, form))),
                          double(s.shared_bytes + model.static_shared));
  const double shared = double(s.shared_bytes) + model.reserved_shared;
  return std::min({kGroupsPerUnit, std::floor((rates.shared_memory_bytes + model.reserved_shared) / shared),
                   std::floor(rates.registers / double(SkinnyShape::kRegisters * s.in.threads))});
}

// A plan before it is priced.
struct Choice {
  SkinnyShape shape;
  int64_t splits, chunk;  // chunk: K of every split but the last
  int32_t split;          // how the splits are merged (Split)
  AmdForm form;
  double resident = 0;  // workgroups on an SM or CU
  double workgroups = 0;
};

// CUDA: whether the plan uses matrix instructions. f32 does, as tf32, if the request allows it and the
// weights are K-contiguous.
bool matrix(const ProblemClass& c) {
  if (is_blocks(c.b)) return false;
  return c.b != DType::kF32 || (c.math == Math::kTf32 && c.trans_b != 0);
}

// FMAs keep four accumulators for each row, and more rows than this spill. On MI300X a pair of bf16 weights
// costs an instruction per row, and as many again to widen weights and rows. At the memory's rate 16 rows
// would take 5/6 of the SIMDs' issue rate, 8 rows take half.
constexpr int64_t kMostFmaRows = 8;

// The most units in flight that leave a thread enough other registers; one more spills. Rounding to tf32, a
// tail along K and, before sm_90, merging splits take a few registers, as does ptxas' widening of 8-bit
// floats with 512 threads.
int64_t most_units(const ProblemClass& c, const SkinnyInput& in, const Target& target) {
  const int64_t most = sm_version(target) < 90 ? 2 : 3;
  // The scales of the K formats come in up to five pieces, which wait in registers.
  if (is_blocks(c.b)) return in.rows > 4 || block_elements(c.b) > 32 ? 1 : 2;
  if (!in.matrix) return in.rows > 4 ? 2 : most;
  const bool has_tail = SkinnyShape(in).tail != 0;
  if (in.rows <= 8) return has_tail && in.element_bytes != 2 ? std::min<int64_t>(most, 2) : most;
  if (has_tail) return 1;
  const bool widens = is_f8(c.b) && widens_f8(target.arch);
  return in.element_bytes == 4 || (widens && in.threads > 256) ? 2 : most;
}

// The rows of a tile. Those of a grouped product are twice the mean group, so that most groups read their weights once.
int64_t rows_of(const ProblemClass& c, bool matrix) {
  const int64_t m = representative_m(c);
  return is_grouped(c.rows) ? std::min(2 * m, matrix ? SkinnyShape::kMaxRows : kMostFmaRows) : m;
}

SkinnyInput input_of(const CandidateContext& context, const Row& r, const AmdForm& form) {
  const ProblemClass& c = context.problem;
  SkinnyInput in;
  in.amd = context.facts.target.backend == Backend::kRocm;
  in.k = c.k, in.n = c.n;
  in.unroll_k = r.unroll_k, in.threads = r.threads;
  in.element_bytes = static_cast<int64_t>(size_of(c.a));
  in.k_major = c.trans_b != 0;
  in.blocks = is_blocks(c.b);
  in.matrix = in.amd ? form.instruction != nullptr : matrix(c);
  in.rows = rows_of(c, in.matrix);
  if (in.amd) {
    in.wave = wave_size(context.facts.target);
    in.lane_groups = form.instruction ? form.instruction->groups : 1;
  } else {
    in.unroll_k = std::min<int64_t>(r.unroll_k, most_units(c, in, context.facts.target));
  }
  in.tile_n = 1, in.tile_k = SkinnyShape::kSplitMultiple;
  in.group = r.warps_n * SkinnyShape(in).warp_columns;
  return in;
}

// How many workgroups run at once. A cluster lies within one GPC, so some SMs find no place in a cluster: up
// to an eighth of them with clusters of eight (docs/gpu-speed.md).
double slots_of(const GpuRates& rates, const Choice& c) {
  return c.resident * rates.units * (c.split == kMergeCluster ? 1 - double(c.splits) / 64 : 1);
}

// Chooses tile_n so that the workgroups fill the device `rounds` times and share the groups of columns evenly.
Choice choose_tile(const GpuRates& rates, SkinnyInput in, const AmdForm& form, int64_t splits, int32_t split,
                   int64_t rounds, int64_t multiple) {
  const int64_t chunk = round_up(ceil_div(in.k, splits), multiple);
  const int64_t groups = ceil_div(in.n, in.group);
  in.tile_k = chunk, in.tile_n = in.group;
  const double resident = resident_of(rates, SkinnyShape(in), form);
  // The tile's sums take shared memory, which may cost a resident workgroup. Two iterations settle that.
  Choice choice{SkinnyShape(in), splits, chunk, split, form, std::max(1.0, resident), 0};
  for (int i = 0; i < 2; ++i) {
    const auto slots = static_cast<int64_t>(slots_of(rates, choice)) * rounds;
    in.tile_n = in.group * ceil_div(groups * splits, std::max(slots, splits));
    choice.shape = SkinnyShape(in);
    choice.resident = resident_of(rates, choice.shape, form);
  }
  choice.workgroups = double(ceil_div(in.n, in.tile_n)) * splits;
  return choice;
}

// A round takes its loads' latency, then the work that does not overlap with them.
double round_seconds(const GpuRates& rates, const SkinnyShape& s, const AmdForm& form, double chunk) {
  const double rounds = std::ceil(chunk / (double(s.unit) * s.warps_k * s.in.unroll_k));
  // Loads of the next round start while this one is multiplied.
  const double unit = s.in.amd ? amd_unit_cycles(s, form)
                               : kUnitCycles + kUnitCyclesPerRows * std::ceil(s.in.rows / 8.0) +
                                     (s.in.blocks ? kDecodeInstructions * SkinnyShape::kUnitRegisters : 0);
  const Model& model = model_of(s.in.amd);
  const double reduce = s.warps_k > 1 ? model.reduce_cycles / rounds : 0;
  return model.loaded_seconds + (0.5 * s.in.unroll_k * unit + reduce) / rates.clock_hz;
}

double predict(const GpuRates& rates, const MatmulSizes& sizes, const Choice& c) {
  const SkinnyShape& s = c.shape;
  const Model& model = model_of(s.in.amd);
  const double chunk = double(c.chunk), tiles = c.workgroups / c.splits;
  const double slots = slots_of(rates, c), reachable = model.reachable * rates.memory_bytes_per_second;
  const double unit_rate = model.unit_bytes_per_cycle * rates.clock_hz;
  // The last tile may be narrow: on average a workgroup streams its share of N.
  const double streamed = sizes.n / tiles * chunk, weights = streamed * sizes.b_bytes;
  // AMD reads A once for the columns of every unit, CUDA stages it.
  const double staged = s.in.amd ? 0 : s.in.rows * chunk * s.in.element_bytes,
               a_read = s.in.amd ? streamed * s.in.element_bytes * s.in.rows / s.warp_columns : staged;
  const double rounds = std::ceil(chunk / (double(s.unit) * s.warps_k * s.in.unroll_k));
  const double alone = double(s.groups) * rounds * round_seconds(rates, s, c.form, chunk);
  // Time that the SIMDs of a CU spend on a workgroup.
  const double units = double(s.groups) * s.warps_n * std::ceil(chunk / s.unit);
  const double products =
      s.in.amd ? units * amd_unit_cycles(s, c.form) / (rates.simds() * kIssued * rates.clock_hz) : 0;
  const auto wave = [&](double workgroups) {
    const double rate = std::min(reachable, std::min(rates.units, workgroups) * unit_rate);
    const double all_units = model.all_units_bytes_per_cycle * rates.clock_hz * rates.units;
    const double from_l2 = workgroups * (weights + a_read) / all_units,
                 multiplied = std::ceil(workgroups / rates.units) * products;
    const double most = std::max({alone, workgroups * weights / rate, from_l2, multiplied});
    return s.in.amd ? most + kExposed * (from_l2 + multiplied) : most;
  };
  const double full = std::floor(c.workgroups / slots), rest = c.workgroups - full * slots;
  const double stream = full * wave(slots) + (rest > 0 ? wave(rest) : 0);
  // CUDA stages A before the first product; AMD reads it in place.
  const double at_once = std::min(c.resident, std::ceil(c.workgroups / rates.units));
  const double first = at_once * staged / (kStagedBytesPerCycle * rates.clock_hz);
  // Later rounds of workgroups start while others on the same SM, if there are any, keep the memory busy.
  const double start = kMemorySeconds + model.end_seconds;
  const double later = full > 0 ? (std::ceil(c.workgroups / slots) - 1) * start / c.resident : 0;
  const double merge = gpu_merge_seconds(rates, sizes, double(c.splits), c.split, tiles);
  return rates.launch_seconds + model.start_seconds + kMemorySeconds + first + stream + later +
         model.end_seconds + merge;
}

bool has_clusters(const std::string& arch) {
  return arch != "sm_80" && arch != "sm_86" && arch != "sm_87" && arch != "sm_89";
}

// Why the family does not support the class, "" if it does.
std::string check_class(const CandidateContext& context) {
  const ProblemClass& c = context.problem;
  if (c.m_lo != c.m_hi || c.m_hi > SkinnyShape::kMaxRows)
    return absl::StrCat("supports M up to ", SkinnyShape::kMaxRows, ", not ", c.m_hi);
  if (c.determinism == Determinism::kBatchInvariant)
    return "batch_invariant: the order of sums along K depends on M";
  if (c.alignment != Alignment::k16) return "rows are not aligned to 16 bytes";
  if (c.trans_a) return "A is not contiguous along K";
  if (context.facts.target.arch == "sm_75") return "sm_75 has no asynchronous copies";
  if (is_blocks(c.b) ? c.a != DType::kF32 : c.a != c.b)
    return absl::StrCat("does not support ", std::string(name_of(c.a)), " by ", std::string(name_of(c.b)));
  if (context.facts.target.backend == Backend::kRocm) return "";
  if (!matrix(c) && c.m_hi > kMostFmaRows)
    return absl::StrCat("supports M up to ", kMostFmaRows, " for f32 without tf32, not ", c.m_hi);
  if (is_fnuz(c.b) || (is_f8(c.b) && sm_version(context.facts.target) < 89))
    return absl::StrCat(context.facts.target.arch, " has no mma instruction for ", name_of(c.b));
  return "";
}

// AMD: why this form's products do not support the class, "" if they do.
std::string check_lanes(const ProblemClass& c, const std::string& arch, const AmdForm& form) {
  if (!form.lanes)
    return absl::StrCat(arch, " has no dot or FMA instruction for ", std::string(name_of(c.b)));
  if (c.m_hi > kMostFmaRows)
    return absl::StrCat("dot and FMA instructions support M up to ", kMostFmaRows, ", not ", c.m_hi);
  return "";
}
std::string check_instruction(const ProblemClass& c, const std::string& arch, const AmdForm& form) {
  if (is_blocks(c.b)) return "matrix instructions would round decoded weights";
  if (!form.instruction || (is_f8(c.b) && arch == "gfx942"))
    return absl::StrCat(arch, " has no matrix instruction of 16 x 16 for ", std::string(name_of(c.b)));
  if (c.trans_b == 0) return "matrix instructions need weights contiguous along K";
  return "";
}

std::string name_of_math(const ProblemClass& c, bool amd) {
  if (c.a != DType::kF32)
    return absl::StrCat(std::string(name_of(c.b)), c.b == DType::kI8 ? " to i32" : " to f32");
  return !amd && matrix(c) ? "tf32 to f32" : "f32";
}
// "dot": one instruction sums the products of two or four elements that are adjacent along K.
const char* name_of_product(const Choice& c) {
  if (c.shape.in.matrix) return "mma ";
  return c.form.lanes && c.form.lanes->kind == LaneProduct::kDot ? "dot " : "fma ";
}

// The ways to merge that many splits.
SplitKinds kinds_of(const CandidateContext& context, int64_t splits) {
  const Target& target = context.facts.target;
  if (splits == 1 || target.backend == Backend::kRocm) return splits_of(target, static_cast<int32_t>(splits));
  constexpr int64_t kPortableCluster = 8;  // CUDA Programming Guide: thread block clusters
  SplitKinds kinds = {kMergeLast};
  if (has_clusters(target.arch) && splits <= kPortableCluster) kinds.push_back(kMergeCluster);
  return kinds;
}

// AMD: scalar registers hold the addresses of four columns for each unit in flight, and those of their scales if these
// lie apart. A group adds its own.
bool spills_scalars(const ProblemClass& c, const SkinnyShape& s) {
  return s.in.amd && has_scales_apart(c.b) && (is_grouped(c.rows) || s.in.unroll_k > 1);
}

std::string check_choice(const ProblemClass& problem, const GpuRates& rates, const Choice& c) {
  if (std::string defect = c.shape.defect(); !defect.empty()) return defect;
  const int64_t shared = c.shape.shared_bytes + model_of(c.shape.in.amd).static_shared;
  if (double(shared) > rates.shared_memory_bytes)
    return absl::StrCat("smem ", shared, " > ", int64_t(rates.shared_memory_bytes));
  if (c.shape.in.threads > rates.max_threads)
    return absl::StrCat("threads ", c.shape.in.threads, " > ", int64_t(rates.max_threads));
  if (c.shape.in.amd && amd_registers(c.shape, c.form) > kMostAmdRegisters)
    return absl::StrCat("registers per thread ", int64_t(amd_registers(c.shape, c.form)), " > ",
                        kMostAmdRegisters);
  if (spills_scalars(problem, c.shape)) return "addresses of block scales would spill scalar registers";
  if (c.resident < 1) return kNoPlace;
  if (c.split == kMergeCluster && double(c.splits) > rates.units)
    return absl::StrCat("cluster size ", c.splits, " > compute units ", int64_t(rates.units));
  return "";
}

SkinnyConfig config_of(const Choice& c) {
  const SkinnyInput& in = c.shape.in;
  SkinnyConfig config;
  config.tile_m = in.rows, config.tile_n = in.tile_n, config.chunk_k = in.tile_k;
  config.columns = in.group;
  config.loads = in.unroll_k;
  config.threads = in.threads;
  config.matrix = in.matrix;
  config.split = c.split;
  if (c.split == kMergeCluster) config.cluster_k = c.splits;
  return config;
}

// Appends one row of the table with every split and share of N worth pricing.
void append_row(const CandidateContext& context, const GpuRates& rates, const MatmulSizes& sizes,
                const SkinnyInput& in, const AmdForm& form, std::vector<RankedPlan>* out) {
  const int64_t multiple = SkinnyShape::split_multiple(context.problem.b);
  int64_t before = 0;
  for (int64_t wanted : {1, 2, 4, 8, 16}) {
    if (context.split_k > 0) wanted = context.split_k;
    const int64_t splits = normalize_splits(sizes.k, wanted, multiple);
    if (splits == before) continue;
    before = splits;
    for (int32_t split : kinds_of(context, splits))
      for (int64_t rounds : {1, 2, 4}) {
        const Choice choice = choose_tile(rates, in, form, splits, split, rounds, multiple);
        // With several rounds of workgroups K need not be split. If the groups of columns do not fill more
        // rounds, the plan is the same again.
        if (rounds > 1 && splits > 1) continue;
        if (rounds > 1 && choice.workgroups <= slots_of(rates, choice) * (rounds / 2)) continue;
        const SkinnyConfig config = config_of(choice);
        if (std::string reason = check_choice(context.problem, rates, choice); !reason.empty()) {
          out->push_back(rejected(config, std::move(reason)));
          continue;
        }
        RankedPlan plan;
        plan.plan.config = config;
        plan.plan.launch.splits = static_cast<int32_t>(splits);
        plan.plan.predicted_seconds = predict(rates, sizes, choice);
        plan.plan.resident = static_cast<int32_t>(choice.resident);
        plan.plan.numeric_recipe =
            absl::StrCat(name_of_product(choice), name_of_math(context.problem, in.amd), "; K in blocks of ",
                         choice.shape.unit, ", dealt in turn to ", choice.shape.warps_k, " sums; ",
                         merge_recipe(static_cast<int32_t>(splits)));
        out->push_back(std::move(plan));
      }
  }
}

void enumerate_amd(const CandidateContext& context, const GpuRates& rates, const MatmulSizes& sizes,
                   std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const std::string& arch = context.facts.target.arch;
  for (const bool matrix : {false, true}) {
    AmdForm form;
    form.packs = packs_fmas(arch);
    if (matrix)
      form.instruction = find_amd_instruction(arch, c.a, 16);
    else
      form.lanes = find_lane_product(arch, c.a);
    const std::string reason = matrix ? check_instruction(c, arch, form) : check_lanes(c, arch, form);
    if (!reason.empty()) {
      SkinnyConfig config;
      config.matrix = matrix;
      out->push_back(rejected(config, reason));
      continue;
    }
    for (const Row& r : kAmdRows) append_row(context, rates, sizes, input_of(context, r, form), form, out);
  }
}

}  // namespace

void enumerate_matmul_skinny(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const GpuRates rates(context.facts);
  const MatmulSizes sizes(context.problem);
  if (std::string reason = check_class(context); !reason.empty()) {
    out->push_back(rejected(SkinnyConfig(), std::move(reason)));
    return;
  }
  if (context.facts.target.backend == Backend::kRocm) return enumerate_amd(context, rates, sizes, out);
  for (const Row& r : kRows) append_row(context, rates, sizes, input_of(context, r, {}), {}, out);
}

}  // namespace lathe
