#include "kernels/matmul/candidates.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe {

MatmulSizes::MatmulSizes(const ProblemClass& c)
    : m(representative_m(c)),
      n(c.n),
      k(c.k),
      input_bytes(bytes_per_element(c.a)),
      b_bytes(bytes_per_element(c.b)),
      output_bytes(size_of(c.d)),
      blocks(is_blocks(c.b)),
      a_blocks(is_blocks(c.a)),
      decode_cycles(row_of(c.b).decode_cycles),
      narrow_a(c.a != DType::kF32),
      narrow_b(c.b != DType::kF32),
      batch_invariant(c.determinism == Determinism::kBatchInvariant) {}

bool has_short_epilogue(const ProblemClass& c) {
  constexpr int kMostInstructions = 3;
  const auto is_converted = [](DType t) { return t != DType::kNone && t != DType::kF32; };
  if (c.d == DType::kI32) return true;  // the sums themselves
  if (c.a == DType::kI8 || is_converted(c.d) || is_converted(c.c) || is_converted(c.bias) ||
      is_converted(c.residual))
    return false;
  if (c.activation != Activation::kNone && c.activation != Activation::kRelu) return false;
  const int of_alpha = 1, of_c = c.c != DType::kNone ? 2 : 0, of_bias = c.bias != DType::kNone,
            of_residual = c.residual != DType::kNone, of_relu = c.activation == Activation::kRelu;
  return of_alpha + of_c + of_bias + of_residual + of_relu <= kMostInstructions;
}

std::string operands_refusal(const ProblemClass& c) {
  if (c.packed_b != 0) return "does not support packed B";
  return is_f8(c.a) ? absl::StrCat("the CPU multiplies f32, f16, bf16 and i8, not ", name_of(c.a)) : "";
}

std::string forced_split_refusal(const CandidateContext& context) {
  if (context.problem.determinism != Determinism::kBatchInvariant || context.split_k <= 1) return "";
  return absl::StrCat("batch_invariant needs split_k 1, but split_k ", context.split_k, " is forced");
}

double lines_a_set(int64_t lines, int64_t line_bytes) {
  return std::ceil(double(lines) * double(std::gcd(kWayBytes, line_bytes)) / kWayBytes);
}

double merge_seconds(const MatmulSizes& s, double splits, double bytes_per_second) {
  return double(s.m) * s.n * (splits * 4 + s.output_bytes) / bytes_per_second + kForkSeconds;
}

}  // namespace lathe
