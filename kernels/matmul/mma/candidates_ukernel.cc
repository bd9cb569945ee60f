// matmul by a ukernel on GPUs: the ukernel is the multi-MMA inner kernel with the whole loop over K
// (ukernel/multi_mma.h). Its tile therefore spans all of K (padded_k); stage_k is the depth of its stages.
#include "absl/strings/str_cat.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/mma/shape.h"

namespace lathe {
namespace {

std::string refusal(const CandidateContext& context) {
  const ProblemClass& c = context.problem;
  if (c.b != c.a) return absl::StrCat("B ", name_of(c.b), " does not have the dtype of A");
  if (c.packed_b != kNotPacked) return "does not support packed B";
  if (c.zero_a != 0 || c.zero_b != Scale::kNone) return "does not support zero points";
  if (c.alignment != Alignment::k16) return "rows are not aligned to 16 bytes";
  return invariance_refusal(context, KernelKind::kMma);
}

std::string cuda_refusal(const CandidateContext& context) {
  const ProblemClass& c = context.problem;
  if (sm_version(context.facts.target) < 80)
    return absl::StrCat(context.facts.target.arch, " has no asynchronous copies, needs sm_80 or later");
  if (size_of(c.a) == 1 && (c.trans_a != 0 || c.trans_b == 0)) return "needs K contiguous in A and B for i8";
  return refusal(context);
}

std::string rocm_refusal(const CandidateContext& context) {
  const ProblemClass& c = context.problem;
  if (c.trans_a != 0 || c.trans_b == 0) return "needs K contiguous in A and B";
  return refusal(context);
}

// Bytes of K in a stage (ukernel/mma_sync.h, ukernel/mfma.h), and number of stages.
constexpr int32_t kDepth = 64, kCudaStages = 4, kRocmStages = 2;

template <int32_t tile_m, int32_t tile_n, int32_t warp_m, int32_t warp_n>
CompileConfig tile_of(const CandidateContext& context) {
  const bool rocm = context.facts.target.backend == Backend::kRocm;
  MmaUkernelConfig config;
  config.tile_m = tile_m, config.tile_n = tile_n;
  config.register_m = warp_m, config.register_n = warp_n;
  config.stage_k = kDepth / size_of(context.problem.a);
  config.padded_k = round_up(context.problem.k, config.stage_k);
  config.stages = rocm ? kRocmStages : kCudaStages;
  config.threads = tile_m / warp_m * (tile_n / warp_n) * wave_size(context.facts.target);
  return config;
}

constexpr char kInlined[] = "alwaysinline nounwind";

using Tiling = CompileConfig (*)(const CandidateContext&);
UkernelRow cuda_row(DType type, const char* function, const char* bitcode, Tiling tiling, int64_t edge) {
  return {Op::kMatmul,       Backend::kCuda, type,
          function,          bitcode,        kInlined,
          cuda_refusal,      tiling,         kCudaStages * 2 * edge * kDepth,
          append_mma_ukernel};
}
UkernelRow rocm_row(DType type, const char* function, const char* bitcode, Tiling tiling, int64_t edge) {
  return {Op::kMatmul,        Backend::kRocm, type,
          function,           bitcode,        kInlined,
          rocm_refusal,       tiling,         kRocmStages * 2 * edge * kDepth,
          append_mfma_ukernel};
}

}  // namespace

const std::vector<UkernelRow>& matmul_gpu_ukernels() {
  constexpr Tiling kEight = tile_of<128, 128, 64, 32>, kFour = tile_of<64, 64, 32, 32>,
                   kFourLarge = tile_of<128, 128, 64, 64>;  // named after their warps (waves)
  static const std::vector<UkernelRow> rows = {
      cuda_row(DType::kF16, "lathe_mma_f16_128x128", "matmul/mma_sync_f16", kEight, 128),
      cuda_row(DType::kF16, "lathe_mma_f16_64x64", "matmul/mma_sync_f16", kFour, 64),
      cuda_row(DType::kBF16, "lathe_mma_bf16_128x128", "matmul/mma_sync_bf16", kEight, 128),
      cuda_row(DType::kBF16, "lathe_mma_bf16_64x64", "matmul/mma_sync_bf16", kFour, 64),
      cuda_row(DType::kI8, "lathe_mma_i8_128x128", "matmul/mma_sync_i8", kEight, 128),
      cuda_row(DType::kI8, "lathe_mma_i8_64x64", "matmul/mma_sync_i8", kFour, 64),
      rocm_row(DType::kF16, "lathe_mfma_f16_128x128", "matmul/mfma_f16", kFourLarge, 128),
      rocm_row(DType::kF16, "lathe_mfma_f16_64x64", "matmul/mfma_f16", kFour, 64),
      rocm_row(DType::kBF16, "lathe_mfma_bf16_128x128", "matmul/mfma_bf16", kFourLarge, 128),
      rocm_row(DType::kBF16, "lathe_mfma_bf16_64x64", "matmul/mfma_bf16", kFour, 64),
  };
  return rows;
}

}  // namespace lathe
