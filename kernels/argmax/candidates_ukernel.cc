// argmax with a ukernel. CPU: the ukernel returns the column of the maximum of a row or of a chunk, and the
// kernel around it reads the value there. GPUs: a wave or a workgroup returns both. Rows, splits and merges
// are those of the generated kernel.
#include "kernels/candidates_ukernel.h"

#include "kernels/argmax/candidates.h"
#include "kernels/candidates_model.h"

namespace lathe {
namespace {

// Cycles for a vector of f32 lanes (two maxima and a minimum), and for the end of a task (estimates).
double vector_cycles(const ProblemClass& c) { return c.a == DType::kF32 ? 1.75 : 0.875; }
constexpr double kEndCycles = 60;

std::string serves_all(const CandidateContext&) { return ""; }

// `block`: vectors that are scanned together (row.h).
CompileConfig whole_rows(const CandidateContext& context, int32_t block) {
  CpuRowsConfig config{KernelKind::kUkernel};
  config.tile_m = config.register_m = 1;
  config.lanes = vector_lanes(context.facts.target);
  config.register_n = config.tile_n =
      block * config.lanes * 4 / static_cast<int64_t>(size_of(context.problem.a));
  config.split = splits_rows(context.problem);
  return config;
}
CompileConfig in_blocks(const CandidateContext& context) { return whole_rows(context, 32); }
CompileConfig in_short_blocks(const CandidateContext& context) { return whole_rows(context, 8); }

void price(const CandidateContext& context, const CompileConfig& config, bool in_parts, double reading,
           std::vector<RankedPlan>* out) {
  append_cpu_rows(context, config, {vector_cycles(context.problem), kEndCycles, in_parts, reading}, out);
}
// Read rate for cold rows relative to the better block size (docs/cpu-speed.md, Argmax). Long blocks stall a
// core that reads fast; the ends of short blocks cost others.
void price_blocks(const CandidateContext& context, const CompileConfig& config,
                  std::vector<RankedPlan>* out) {
  price(context, config, /*in_parts=*/false, CpuRates(context).prefetches_into_l1 ? 0.77 : 1, out);
}
void price_short(const CandidateContext& context, const CompileConfig& config, std::vector<RankedPlan>* out) {
  price(context, config, /*in_parts=*/false, CpuRates(context).prefetches_into_l1 ? 1 : 0.87, out);
}
void price_parts(const CandidateContext& context, const CompileConfig& config, std::vector<RankedPlan>* out) {
  price(context, config, /*in_parts=*/true, 1, out);
}

// Loads of 16 bytes, four of them in flight in a thread (groups.c).
constexpr int32_t kLoads = 4;
constexpr GpuRow kByWaves = {256, 1, kLoads}, kByBlock = {512, 0, kLoads};
// A key, a column and a value for each wave, of at least 32 threads.
constexpr int64_t kPartialBytes = 12 * kByBlock.threads / 32;

std::string serves_aligned(const CandidateContext& context) {
  return context.problem.alignment == Alignment::kByte ? "needs rows aligned to at least one element" : "";
}

CompileConfig ukernel_rows(const CandidateContext& context, const GpuRow& row) {
  GpuRowsConfig config = gpu_rows(context, row);
  config.kernel = KernelKind::kUkernel;
  return config;
}
CompileConfig row_a_wave(const CandidateContext& context) { return ukernel_rows(context, kByWaves); }
CompileConfig row_a_block(const CandidateContext& context) { return ukernel_rows(context, kByBlock); }

// Estimate, not measured. The cost of reading a vector again is added, and savings in the scan are not
// counted, so that no ukernel is chosen before a generated kernel with the same tiling.
void price_gpu(const CandidateContext& context, const CompileConfig& config, std::vector<RankedPlan>* out) {
  append_gpu_rows(context, config.as<GpuRowsConfig>(), config.ukernel, kMemorySeconds, out);
}

UkernelRow by_row(DType type, const char* function, decltype(UkernelRow::tiling) tiling,
                  decltype(UkernelRow::price) price_of) {
  return {Op::kArgmax, Backend::kCpu, type, function, "argmax/rows", "alwaysinline nounwind",
          serves_all,  tiling,        0,    price_of};
}
UkernelRow by_wave(Backend backend, DType type, const char* function) {
  return {Op::kArgmax,    backend,    type, function, "argmax/groups", "alwaysinline nounwind",
          serves_aligned, row_a_wave, 0,    price_gpu};
}
UkernelRow by_block(Backend backend, DType type, const char* function) {
  return {Op::kArgmax,    backend,     type,          function, "argmax/groups", "alwaysinline nounwind",
          serves_aligned, row_a_block, kPartialBytes, price_gpu};
}

}  // namespace

const std::vector<UkernelRow>& argmax_ukernels() {
  static const std::vector<UkernelRow> rows = {
      by_row(DType::kF32, "lathe_argmax_row_f32", in_blocks, price_blocks),
      by_row(DType::kF16, "lathe_argmax_row_f16", in_blocks, price_blocks),
      by_row(DType::kBF16, "lathe_argmax_row_bf16", in_blocks, price_blocks),
      by_row(DType::kF32, "lathe_argmax_short_f32", in_short_blocks, price_short),
      by_row(DType::kF16, "lathe_argmax_short_f16", in_short_blocks, price_short),
      by_row(DType::kBF16, "lathe_argmax_short_bf16", in_short_blocks, price_short),
      by_row(DType::kF32, "lathe_argmax_parts_f32", in_blocks, price_parts),
      by_row(DType::kF16, "lathe_argmax_parts_f16", in_blocks, price_parts),
      by_row(DType::kBF16, "lathe_argmax_parts_bf16", in_blocks, price_parts),
      by_wave(Backend::kCuda, DType::kF32, "lathe_argmax_wave_f32"),
      by_wave(Backend::kCuda, DType::kF16, "lathe_argmax_wave_f16"),
      by_wave(Backend::kCuda, DType::kBF16, "lathe_argmax_wave_bf16"),
      by_block(Backend::kCuda, DType::kF32, "lathe_argmax_block_f32"),
      by_block(Backend::kCuda, DType::kF16, "lathe_argmax_block_f16"),
      by_block(Backend::kCuda, DType::kBF16, "lathe_argmax_block_bf16"),
      by_wave(Backend::kRocm, DType::kF32, "lathe_argmax_wave_f32"),
      by_wave(Backend::kRocm, DType::kF16, "lathe_argmax_wave_f16"),
      by_wave(Backend::kRocm, DType::kBF16, "lathe_argmax_wave_bf16"),
      by_block(Backend::kRocm, DType::kF32, "lathe_argmax_block_f32"),
      by_block(Backend::kRocm, DType::kF16, "lathe_argmax_block_f16"),
      by_block(Backend::kRocm, DType::kBF16, "lathe_argmax_block_bf16"),
  };
  return rows;
}

}  // namespace lathe
