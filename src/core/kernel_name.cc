#include "core/kernel_name.h"

#include "absl/strings/str_cat.h"
#include "core/packed.h"

namespace lathe {
namespace {

std::string range(int64_t lo, int64_t hi) {
  if (lo == hi) return absl::StrCat(lo);
  return hi == Bucket::kOpenEnd ? absl::StrCat(lo, "up") : absl::StrCat(lo, "to", hi);
}

std::string scales(const ProblemClass& c) {
  const auto scale = [](const char* operand, Scale s) -> std::string {
    if (s == Scale::kNone) return "";
    return absl::StrCat("_s", operand, s == Scale::kPerChannel ? "c" : "");
  };
  return absl::StrCat(scale("a", c.scale_a), scale("b", c.scale_b), c.zero_a ? "_za" : "",
                      c.zero_b == Scale::kNone        ? ""
                      : c.zero_b == Scale::kPerTensor ? "_zb"
                                                      : "_zbc");
}

std::string b_layout(const ProblemClass& c) {
  if (c.packed_b == kNotPacked) return c.trans_b ? "t" : "n";
  return c.packed_b == kColumns16 ? "p" : absl::StrCat("p", c.packed_b);
}

std::string operands(const ProblemClass& c) {
  if (has_program(c.op))
    return absl::StrCat("_", name_of(c.d), "_p", absl::Hex(c.program_hi, absl::kZeroPad16));
  if (has_row_lengths(c.op)) return absl::StrCat("_", name_of(c.a), "_n", range(c.row_lo, c.row_hi));
  const DType product = c.op == Op::kMatmulArgmax ? c.logits : c.d;
  const std::string by = c.b == c.a ? "" : absl::StrCat("_by_", name_of(c.b));
  const std::string dtypes = absl::StrCat("_", name_of(c.a), by, scales(c), "_", name_of(product));
  if (c.generic) return absl::StrCat(dtypes, "_generic");
  return absl::StrCat(dtypes, "_", c.trans_a ? "t" : "n", b_layout(c), "_m", range(c.m_lo, c.m_hi), "_n", c.n,
                      "_k", c.k);
}

std::string epilogue(const ProblemClass& c) {
  std::string out;
  if (has_program(c.op)) return out;  // the program's digest covers everything
  const auto operand = [&](const char* what, DType t) {
    if (t != DType::kNone) absl::StrAppend(&out, "_", what, name_of(t));
  };
  operand("c", c.c);
  operand("bias", c.bias);
  operand(c.combine == Combine::kAdd ? "res" : "times", c.residual);
  if (c.activation != Activation::kNone) absl::StrAppend(&out, "_", name_of(c.activation));
  if (returns_indices(c.op)) absl::StrAppend(&out, "_", name_of(c.d), c.wants_values ? "_val" : "");
  return out;
}

std::string numbers_and_launch(const ProblemClass& c) {
  const char* order = c.determinism == Determinism::kRunToRun         ? "_rr"
                      : c.determinism == Determinism::kBatchInvariant ? "_bi"
                                                                      : "";
  const char* dependent = c.dependent_launch == DependentLaunch::kOn          ? "_pdl"
                          : c.dependent_launch == DependentLaunch::kConstantB ? "_pdlb"
                                                                              : "";
  const char* aligned = c.alignment == Alignment::k16     ? "_a16"
                        : c.alignment == Alignment::kByte ? "_byte"
                                                          : "";
  const std::string math = c.math == Math::kStrict ? "" : absl::StrCat("_", name_of(c.math));
  return absl::StrCat(order, math, dependent, aligned);
}

std::string plan_name(const CompileConfig& p) {
  std::string out =
      absl::StrCat("_", name_of(p.kernel()), p.ukernel.function.empty() ? "" : "_", p.ukernel.function);
  if (!p.external.provider.empty() || !p.external.routine.empty())
    absl::StrAppend(&out, "_", p.external.provider, "_", p.external.routine);
  return out + name_of_numbers(p);
}

}  // namespace

std::string kernel_name(const ProblemClass& c, const CompileConfig& config) {
  const std::string rows = c.rows == Rows::kPlain ? "" : absl::StrCat("_", name_of(c.rows));
  return absl::StrCat("lathe_", name_of(c.op), rows, operands(c), epilogue(c), numbers_and_launch(c),
                      plan_name(config));
}

}  // namespace lathe
