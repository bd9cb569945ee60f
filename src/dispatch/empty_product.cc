#include "dispatch/empty_product.h"

#include <cmath>
#include <cstring>

#include "dispatch/number_rows.h"

namespace lathe {
namespace {

float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kRelu: return x < 0.0f ? 0.0f : x;
    case Activation::kGelu: return x * 0.5f * (1.0f + std::erf(x * 0.70710678118654752f));
    case Activation::kGeluTanh:
      return x * 0.5f * (1.0f + std::tanh(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    case Activation::kSilu: return x / (1.0f + std::exp(-x));
    case Activation::kSiluClamped: x = x > 7.0f ? 7.0f : x; return x / (1.0f + std::exp(-1.702f * x));
    case Activation::kClampPlusOne: return (x > 7.0f ? 7.0f : x < -7.0f ? -7.0f : x) + 1.0f;
  }
  return x;
}

// matmul_argmax. All rows have the same logits: the bias, or zeros.
void run_empty_comparison(const ProblemClass& problem, const ArgumentBlock& args) {
  int64_t best = 0;
  float greatest = 0.0f;
  for (int64_t j = 0; problem.bias != DType::kNone && j < args.n; ++j) {
    // As in a kernel: add the bias to the product, then round to the dtype of the logits.
    const float sum = 0.0f + load_number(args.bias, j, problem.bias);
    float logit = 0.0f;
    store_number(&logit, 0, problem.logits, sum);
    logit = load_number(&logit, 0, problem.logits);
    if (j == 0 || logit > greatest || std::isnan(logit)) best = j, greatest = logit;
    if (std::isnan(greatest)) break;
  }
  const int64_t index = best + args.index_offset;
  for (int64_t i = 0; i < args.m; ++i) {
    const size_t size = size_of(problem.d);
    const auto narrow = static_cast<int32_t>(index);
    std::memcpy(static_cast<char*>(args.d) + static_cast<size_t>(i) * size,
                problem.d == DType::kI64 ? static_cast<const void*>(&index) : &narrow, size);
    if (problem.wants_values) store_number(args.values, i, DType::kF32, greatest);
  }
}

}  // namespace

void run_empty_product(const ProblemClass& problem, const ArgumentBlock& args) {
  if (problem.op == Op::kMatmulArgmax) return run_empty_comparison(problem, args);
  const float product = args.alpha * 0.0f;
  for (int64_t b = 0; b < args.batch; ++b) {
    for (int64_t i = 0; i < args.m; ++i) {
      for (int64_t j = 0; j < args.n; ++j) {
        float x = product;
        if (problem.c != DType::kNone) {
          x += args.beta * load_number(args.c, b * args.stride_c + i * args.ldc + j, problem.c);
        }
        if (problem.bias != DType::kNone) x += load_number(args.bias, j, problem.bias);
        x = activate(problem.activation, x);
        if (problem.residual != DType::kNone) {
          const float residual =
              load_number(args.residual, b * args.stride_r + i * args.ldr + j, problem.residual);
          x = problem.combine == Combine::kAdd ? x + residual : x * residual;
        }
        store_number(args.d, b * args.stride_d + i * args.ldd + j, problem.d, x);
      }
    }
  }
}

}  // namespace lathe
