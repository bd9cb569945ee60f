// The float64 reference of MatmulRequest, and the bounds of matmul_case.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "matmul_case.h"

namespace lathe::conformance {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double activate(lathe_activation activation, double x) {
  switch (activation) {
    case LATHE_ACTIVATION_RELU: return std::isnan(x) ? x : x > 0 ? x : 0;
    case LATHE_ACTIVATION_GELU: return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case LATHE_ACTIVATION_GELU_TANH:
      return x * 0.5 * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case LATHE_ACTIVATION_SILU: return x / (1 + std::exp(-x));
    case LATHE_ACTIVATION_SILU_CLAMPED: {
      const double y = x > 7 ? 7 : x;
      return y / (1 + std::exp(-1.702 * y));
    }
    case LATHE_ACTIVATION_CLAMP_PLUS_ONE: return (x > 7 ? 7 : x < -7 ? -7 : x) + 1;
    default: return x;
  }
}

bool is_smooth(lathe_activation activation) {
  return activation != LATHE_ACTIVATION_NONE && activation != LATHE_ACTIVATION_RELU &&
         activation != LATHE_ACTIVATION_CLAMP_PLUS_ONE;
}

// For one matrix: sums[i][j] = sum_k a b and magnitudes[i][j] = sum_k |a b|.
void multiply(const double* a, const double* b, int64_t m, int64_t n, int64_t k, double* sums,
              double* magnitudes) {
  std::fill(sums, sums + m * n, 0.0);
  std::fill(magnitudes, magnitudes + m * n, 0.0);
  constexpr int64_t kDepth = 64;  // rows of B that stay in the cache for all rows of A
  for (int64_t p0 = 0; p0 < k; p0 += kDepth) {
    for (int64_t i = 0; i < m; ++i) {
      double* sum = sums + i * n;
      double* magnitude = magnitudes + i * n;
      for (int64_t p = p0; p < std::min(k, p0 + kDepth); ++p) {
        const double x = a[i * k + p];
        const double* row = b + p * n;
        for (int64_t j = 0; j < n; ++j) {
          sum[j] += x * row[j];
          magnitude[j] += std::fabs(x * row[j]);
        }
      }
    }
  }
}

}  // namespace

bool MatmulRequest::rounds_to_bytes() const {
  const reference::BlockFormat* blocks = reference::block_format(case_.b);
  return blocks != nullptr && case_.math == LATHE_MATH_INT8;
}

bool MatmulRequest::is_exact() const {
  return case_.out == LATHE_I32 ||
         (case_.values == Values::kSmallIntegers && !is_smooth(case_.activation) && !rounds_to_bytes());
}

double product_error(int64_t k, lathe_dtype a, lathe_dtype b, lathe_math math) {
  if (a == LATHE_I8) return 0;
  const double length = static_cast<double>(k) + 4;
  double part = std::min(length, 6 * std::sqrt(length)) * kUnitRoundoff;
  if (a == LATHE_F32 && math == LATHE_MATH_TF32) part += 0x1p-9;
  if (a == LATHE_F32 && b == LATHE_BF16 && math == LATHE_MATH_BF16) part += 0x1p-8;
  if (bytes_of(a) == 1) part += 0x1p-10;
  return part;
}

BlockProduct MatmulRequest::block_product(int64_t batch) const {
  const int64_t m = case_.m, n = case_.n, k = case_.k, b = case_.broadcast_b ? 0 : batch * k * n;
  return {*reference::block_format(case_.b),
          m,
          n,
          k,
          a_values_.data() + (case_.broadcast_a ? 0 : batch * m * k),
          b_terms_.products.data() + b,
          b_terms_.minima.data() + b};
}

void MatmulRequest::compute_reference() {
  const int64_t m = case_.m, n = case_.n, k = case_.k;
  const size_t count = static_cast<size_t>(case_.batch * m * n);
  expected_.resize(count);
  bound_.resize(count);
  nan_allowed_.resize(count);
  std::vector<double> sums(static_cast<size_t>(m * n)), magnitudes(static_cast<size_t>(m * n));
  std::vector<double> rounded;  // the error allowed for rounding A to bytes
  const double growth = product_error(k, case_.in, case_.b, case_.math), u = kUnitRoundoff;
  const auto matrix = [m, n](const std::vector<double>& values, int64_t b) {
    return values.size() > static_cast<size_t>(m * n) ? values.data() + b * m * n : values.data();
  };
  for (int64_t b = 0; b < case_.batch; ++b) {
    if (b == 0 || !case_.broadcast_a || !case_.broadcast_b) {
      multiply(a_values_.data() + (case_.broadcast_a ? 0 : b * m * k),
               b_values_.data() + (case_.broadcast_b ? 0 : b * k * n), m, n, k, sums.data(),
               magnitudes.data());
    }
    if (rounds_to_bytes() && rounds_a_) multiply_rounded(block_product(b), &sums, &magnitudes);
    if (rounds_to_bytes() && !rounds_a_) rounded = error_of_rounding(block_product(b));
    for (int64_t e = 0; e < m * n; ++e) {
      const double scale = (scale_a_values_.empty() ? 1 : scale_a_values_[static_cast<size_t>(e / n)]) *
                           (scale_b_values_.empty() ? 1 : scale_b_values_[static_cast<size_t>(e % n)]);
      const double product = static_cast<double>(case_.alpha) * scale * sums[e];
      const double scaled_c = c_values_.empty() || case_.beta == 0 ? 0 : case_.beta * matrix(c_values_, b)[e];
      const double bias = bias_values_.empty() ? 0 : bias_values_[e % n];
      const double x = product + scaled_c + bias;
      double bound = std::fabs(case_.alpha) * (growth * magnitudes[e] + (rounded.empty() ? 0 : rounded[e])) +
                     (case_.scale_a || case_.scale_b ? 3 * u * std::fabs(product) : 0) +
                     4 * u * (std::fabs(product) + std::fabs(scaled_c) + std::fabs(bias));
      const bool literal_nan = is_smooth(case_.activation) && x == -kInfinity;
      double value = literal_nan ? 0 : activate(case_.activation, x);
      if (std::isinf(x)) bound = case_.activation == LATHE_ACTIVATION_SILU_CLAMPED ? 64 * u : 0;
      if (case_.activation == LATHE_ACTIVATION_CLAMP_PLUS_ONE) bound += u * std::fabs(value);
      if (is_smooth(case_.activation) && !std::isinf(x)) {
        bound = 1.2 * bound + 16 * u * (std::fabs(x) + std::fabs(value));
      }
      if (!residual_values_.empty()) {
        const double residual = matrix(residual_values_, b)[e];
        if (case_.multiply) {
          bound = bound * std::fabs(residual) + 2 * u * std::fabs(value * residual);
          value *= residual;
        } else {
          bound += 2 * u * (std::fabs(value) + std::fabs(residual));
          value += residual;
        }
      }
      expected_[b * m * n + e] = value;
      bound_[b * m * n + e] = is_exact() ? 0 : bound + std::numeric_limits<float>::min();
      nan_allowed_[b * m * n + e] = literal_nan;
    }
  }
}

}  // namespace lathe::conformance
