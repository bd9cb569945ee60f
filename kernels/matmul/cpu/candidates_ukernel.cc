// Candidates of CPU matmul with a micro-kernel in C: it replaces the micro-kernel of "panel" and contains
// the whole loop over K. K is not tiled: panels are as deep as K, and only as many columns as L2 holds are
// packed at a time.
#include "absl/strings/str_cat.h"
#include "kernels/matmul/candidates.h"

namespace lathe {
namespace {

// Why the problem cannot use such panels, "" if it can.
std::string refusal(const CandidateContext& context) {
  const ProblemClass& c = context.problem;
  if (std::string operands = operands_refusal(c); !operands.empty()) return operands;
  if (c.b != c.a) return absl::StrCat("B ", name_of(c.b), " does not have the dtype of A");
  if (c.zero_a != 0) return "does not support a zero point of A";
  if (context.split_k > 1) return absl::StrCat("does not support split_k ", context.split_k);
  if (c.determinism == Determinism::kBatchInvariant && c.a != DType::kI8)
    return "batch_invariant: other kernels sum K in blocks, the ukernel does not";
  return "";
}

template <int rows, int vectors>
CompileConfig register_tile(const CandidateContext& context) {
  PanelUkernelConfig config;
  config.lanes = vector_lanes(context.facts.target);
  config.register_m = rows, config.register_n = vectors * config.lanes;
  return config;
}

constexpr char kInlined[] = "alwaysinline nounwind";

}  // namespace

const std::vector<UkernelRow>& matmul_ukernels() {
  // f16 is packed as f32. There is no bitcode for bf16 without instructions for pairs, nor for i8 without
  // VNNI.
  static const std::vector<UkernelRow> rows = {
      {Op::kMatmul, Backend::kCpu, DType::kF32, "lathe_panels_f32_14x2", "matmul/panels", kInlined, refusal,
       register_tile<14, 2>, 0, append_whole_panels},
      {Op::kMatmul, Backend::kCpu, DType::kF32, "lathe_panels_f32_6x2", "matmul/panels", kInlined, refusal,
       register_tile<6, 2>, 0, append_whole_panels},
      {Op::kMatmul, Backend::kCpu, DType::kF16, "lathe_panels_f32_14x2", "matmul/panels", kInlined, refusal,
       register_tile<14, 2>, 0, append_whole_panels},
      {Op::kMatmul, Backend::kCpu, DType::kF16, "lathe_panels_f32_6x2", "matmul/panels", kInlined, refusal,
       register_tile<6, 2>, 0, append_whole_panels},
      {Op::kMatmul, Backend::kCpu, DType::kBF16, "lathe_panels_bf16_14x2", "matmul/panels_bf16", kInlined,
       refusal, register_tile<14, 2>, 0, append_whole_panels},
      {Op::kMatmul, Backend::kCpu, DType::kI8, "lathe_panels_i8_14x2", "matmul/panels_i8", kInlined, refusal,
       register_tile<14, 2>, 0, append_whole_panels},
  };
  return rows;
}

}  // namespace lathe
