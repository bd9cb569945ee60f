#include "reference/matmul.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "absl/strings/str_format.h"
#include "reference/block_scaled.h"

namespace lathe::reference {

namespace {

bool has_f8_blocks(const std::string& format) {
  const ScaledElements* elements = scaled_elements_named(format);
  return elements != nullptr && is_f8(elements->element);
}

}  // namespace

bool MatmulRequest::operator==(const MatmulRequest& o) const {
  const auto fields = [](const MatmulRequest& r) {
    return std::tie(r.m, r.n, r.k, r.batch, r.dtype, r.b_dtype, r.out_dtype, r.math, r.trans_a, r.trans_b,
                    r.alpha, r.beta, r.bias, r.residual, r.multiply, r.activation, r.packed, r.c_in_place,
                    r.residual_in_place, r.broadcast_a, r.broadcast_b, r.a_format, r.b_format);
  };
  return OpRequest::operator==(o) && fields(*this) == fields(o);
}

lathe_dtype default_result(lathe_dtype dtype) {
  return dtype == LATHE_I8 || is_f8(dtype) ? LATHE_F32 : dtype;
}

MatmulSpecs specs_of(const MatmulRequest& r) {
  OperandSpec spec;
  spec.padding = r.padding;
  spec.misalign = r.misalign;
  spec.batch = r.batch;
  const auto matrix = [&](lathe_dtype dtype, int64_t rows, int64_t columns) {
    return matrix_spec(spec, dtype, rows, columns);
  };
  MatmulSpecs specs;
  specs.a = matrix(r.dtype, r.m, r.k);
  specs.a.transposed = r.trans_a;
  specs.a.broadcast = r.broadcast_a;
  specs.b = matrix(r.weight_dtype(), r.k, r.n);
  specs.b.padding = whole_blocks(r.weight_dtype(), r.padding);
  specs.b.transposed = r.trans_b;
  specs.b.broadcast = r.broadcast_b;
  specs.d = matrix(r.out_dtype, r.m, r.n);
  if (r.beta != 0) specs.c = specs.d;
  if (r.residual) specs.residual = specs.d;
  if (r.bias) {
    specs.bias = matrix(r.out_dtype, 1, r.n);
    specs.bias.batch = 1;
  }
  return specs;
}

namespace {

double activate(lathe_activation activation, double x) {
  switch (activation) {
    case LATHE_ACTIVATION_NONE: return x;
    case LATHE_ACTIVATION_RELU: return x < 0 ? 0 : x;
    case LATHE_ACTIVATION_GELU: return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case LATHE_ACTIVATION_GELU_TANH:
      return x * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case LATHE_ACTIVATION_SILU: return x / (1 + std::exp(-x));
    case LATHE_ACTIVATION_SILU_CLAMPED: {
      const double y = std::isnan(x) ? x : std::min(x, 7.0);
      return y / (1 + std::exp(-1.702 * y));
    }
    case LATHE_ACTIVATION_CLAMP_PLUS_ONE: return std::isnan(x) ? x : std::max(std::min(x, 7.0), -7.0) + 1;
  }
  return NAN;
}

}  // namespace

bool rounds_to_bytes(lathe_math math, lathe_dtype weight) {
  return math == LATHE_MATH_INT8 && block_format(weight) != nullptr;
}

void BlockColumn::read(const Operand& b, int64_t batch, int64_t column) {
  for (size_t p = 0; p < magnitudes.size(); ++p)
    magnitudes[p] = b.block_magnitude(batch, static_cast<int64_t>(p), column);
}

// The error of LATHE_MATH_INT8: each element of A is off by up to half a scale (largest magnitude of the block / 127).
// Scales in f16 are off by 2^-11 of it, or by half of f16's smallest subnormal; so is what multiplies a minimum. 4 eps
// more cover the rounding of the quotient.
double rounding_to_bytes(const float* a, const BlockColumn& b) {
  const int64_t block = b.format->elements, k = static_cast<int64_t>(b.magnitudes.size());
  const bool halves = b.format->halves_a_scale;
  double sum = 0;
  for (int64_t at = 0; at + block <= k; at += block) {
    double largest = 0, weights = 0;
    for (int64_t i = at; i < at + block; ++i) {
      largest = std::max(largest, std::fabs(static_cast<double>(a[i])));
      weights += b.magnitudes[static_cast<size_t>(i)];
    }
    const double of_halves = halves ? 0x1p-11 * largest + 127 * 0x1p-25 : 0;
    sum += weights * (largest * (0.5 / 127 + 4 * kEpsilon) + 2 * of_halves);
  }
  return sum;
}

double sum_bound(const MatmulRequest& r, double magnitude) {
  if (r.dtype == LATHE_I8) return 0;
  const bool scaled = !r.b_format.empty();  // then operands are no integers, whatever the fill is
  if (r.fill == Fill::kIntegers && !scaled && !rounds_to_bytes(r.math, r.weight_dtype()) &&
      magnitude <= (is_f8(r.dtype) ? 0x1p13 : 0x1p24))
    return 0;
  double part = 6 * kEpsilon * std::max(1.0, std::sqrt(static_cast<double>(r.k) / 4096));
  if (r.math == LATHE_MATH_TF32 && r.dtype == LATHE_F32) part += 0x1p-9;
  if (r.math == LATHE_MATH_BF16 && r.dtype == LATHE_F32 && r.weight_dtype() == LATHE_BF16) part += 0x1p-8;
  if (is_f8(r.dtype) || (has_f8_blocks(r.a_format) && has_f8_blocks(r.b_format))) part += 0x1p-10;
  if (scaled) part += kEpsilon * std::sqrt(static_cast<double>(r.k));
  return part * magnitude;
}

namespace {

constexpr double kWrong = 1e6;  // a fraction of the bound

}  // namespace

double fraction_of_bound(const ExpectedElement& e, double got, lathe_dtype dtype) {
  if (std::isnan(e.value)) return std::isnan(got) ? 0 : kWrong;
  if (std::isinf(e.value)) return got == e.value ? 0 : kWrong;
  // A result beyond the dtype's range may be infinity.
  const bool overflow = !is_integer(dtype) && std::fabs(e.value) + e.bound >= largest(dtype);
  if (overflow && std::isinf(got)) return std::signbit(got) == std::signbit(e.value) ? 0 : kWrong;
  const double error = std::fabs(got - e.value);
  if (error == 0) return 0;
  return error <= e.bound * kWrong ? error / e.bound : kWrong;
}

namespace {

struct Expected {
  double value = 0, bound = 0;
  bool may_be_nan = false;
  // With LATHE_MATH_INT8, a NaN or infinity in A may give NaN or any infinity. An activation may turn it into a number.
  bool is_any_not_finite = false, is_activated = false;
};

Expected epilogue(const MatmulRequest& r, const MatmulData& data, Dot ab, int64_t batch, int64_t row,
                  int64_t column) {
  Expected e;
  if (r.out_dtype == LATHE_I32) {  // i32 sums wrap around
    e.value = static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(ab.sum)));
    return e;
  }
  const double scaled = r.alpha * ab.sum, c = r.beta != 0 ? r.beta * data.c.at(batch, row, column) : 0,
               bias = r.bias ? data.bias.at(0, 0, column) : 0,
               residual = r.residual ? data.residual.at(batch, row, column) : 0;
  const double before = scaled + c + bias;
  // At -infinity the formula of a smooth activation gives infinity times zero (NaN), and its limit is 0. Both are
  // right.
  const bool smooth = r.activation != LATHE_ACTIVATION_NONE && r.activation != LATHE_ACTIVATION_RELU &&
                      r.activation != LATHE_ACTIVATION_CLAMP_PLUS_ONE;
  e.may_be_nan = smooth && before == -INFINITY;
  const double after = e.may_be_nan ? 0 : activate(r.activation, before);
  e.value = r.multiply ? after * residual : after + residual;
  e.bound = std::fabs(r.alpha) * (sum_bound(r, ab.magnitude) + ab.rounded);
  e.bound += 3 * kEpsilon *
             (std::fabs(scaled) + std::fabs(c) + std::fabs(bias) + std::fabs(after) + std::fabs(residual));
  // The slope of an activation is at most 1.13. Its approximation may be off by 8 eps of the argument.
  if (r.activation != LATHE_ACTIVATION_NONE) e.bound = 1.13 * e.bound + 8 * kEpsilon * std::fabs(before);
  if (r.multiply) e.bound = e.bound * std::fabs(residual) + kEpsilon * std::fabs(e.value);
  e.is_any_not_finite = rounds_to_bytes(r.math, r.weight_dtype()) && !std::isfinite(ab.sum);
  e.is_activated = r.activation != LATHE_ACTIVATION_NONE;
  const bool clamped = r.activation >= LATHE_ACTIVATION_SILU_CLAMPED;
  if (std::isinf(before) && !clamped)
    e.bound = 3 * kEpsilon * std::fabs(residual);  // the result is infinite, or equals the residual
  if (std::isinf(before) && clamped) e.bound = 64 * kEpsilon * (1 + std::fabs(residual));
  e.bound += rounding(r.out_dtype) * (std::fabs(e.value) + e.bound) + smallest_rounding(r.out_dtype);
  return e;
}

double fraction_of_bound(const Expected& e, double got, lathe_dtype dtype) {
  if (e.is_any_not_finite) return std::isfinite(got) && !e.is_activated ? kWrong : 0;
  if (std::isnan(got) && e.may_be_nan) return 0;
  return reference::fraction_of_bound(ExpectedElement{e.value, e.bound}, got, dtype);
}

// The element with the largest error so far.
struct Worst {
  double fraction = 0, got = 0, wanted = 0;
  int64_t batch = 0, row = 0, column = 0;
};

struct Sample {
  std::vector<int64_t> batches, rows, columns;
};

Sample choose_sample(const MatmulRequest& r, Normal* random) {
  Sample s;
  s.batches = choose(r.batch, 4, random);
  const int64_t budget = kBudget / static_cast<int64_t>(s.batches.size()) / std::max<int64_t>(r.k, 1);
  const bool whole_matrix = r.m <= budget / r.n;
  s.rows = choose(r.m, whole_matrix ? r.m : 24, random);
  const int64_t some = std::max<int64_t>(8, budget / static_cast<int64_t>(s.rows.size()));
  s.columns = choose(r.n, whole_matrix ? r.n : some, random);
  return s;
}

// Calls visit(batch, row, column, expected) for each element of the sample.
template <typename Visit>
void expect(const MatmulRequest& r, const MatmulData& data, const Sample& sample, const Visit& visit) {
  const auto k = static_cast<size_t>(r.k);
  std::vector<float> a(sample.rows.size() * k), b(k);
  BlockColumn blocks;
  if (rounds_to_bytes(r.math, r.weight_dtype()))
    blocks = {block_format(r.weight_dtype()), std::vector<float>(k)};
  for (int64_t batch : sample.batches) {
    for (size_t i = 0; i < sample.rows.size(); ++i) {
      for (size_t p = 0; p < k; ++p) {
        a[i * k + p] = static_cast<float>(data.a.at(batch, sample.rows[i], static_cast<int64_t>(p)));
      }
    }
    for (int64_t column : sample.columns) {
      for (size_t p = 0; p < k; ++p)
        b[p] = static_cast<float>(data.b.at(batch, static_cast<int64_t>(p), column));
      blocks.read(data.b, batch, column);
      for (size_t i = 0; i < sample.rows.size(); ++i) {
        const int64_t row = sample.rows[i];
        Dot ab = dot(a.data() + i * k, b.data(), r.k);
        if (rounds_to_bytes(r.math, r.weight_dtype()))
          ab.rounded = rounding_to_bytes(a.data() + i * k, blocks);
        visit(batch, row, column, epilogue(r, data, ab, batch, row, column));
      }
    }
  }
}

Worst compare(const MatmulRequest& r, const MatmulData& data, const Sample& sample) {
  Worst worst;
  expect(r, data, sample, [&](int64_t batch, int64_t row, int64_t column, const Expected& expected) {
    const double got = data.d.at(batch, row, column);
    const double fraction = fraction_of_bound(expected, got, r.out_dtype);
    if (fraction >= worst.fraction) worst = {fraction, got, expected.value, batch, row, column};
  });
  return worst;
}

std::string describe_sample(const MatmulRequest& r, const Sample& s) {
  const std::string of =
      r.batch > 1 ? absl::StrFormat(" of %d of %d matrices", s.batches.size(), r.batch) : "";
  return absl::StrFormat("%d rows by %d columns%s, and that every element was written", s.rows.size(),
                         s.columns.size(), of);
}

}  // namespace

std::vector<ExpectedElement> expected_elements(const MatmulRequest& r, const MatmulData& data) {
  std::vector<ExpectedElement> elements(static_cast<size_t>(r.m * r.n));
  Sample all{
      {0}, std::vector<int64_t>(static_cast<size_t>(r.m)), std::vector<int64_t>(static_cast<size_t>(r.n))};
  std::iota(all.rows.begin(), all.rows.end(), 0);
  std::iota(all.columns.begin(), all.columns.end(), 0);
  expect(r, data, all, [&](int64_t, int64_t row, int64_t column, const Expected& expected) {
    elements[static_cast<size_t>(row * r.n + column)] = {expected.value, expected.bound};
  });
  return elements;
}

CheckResult check_matmul(const MatmulRequest& r, const MatmulData& data, Normal* random) {
  CheckResult result;
  result.total = data.d.elements();
  // Poison is NaN. With special values a NaN may be a right result, so unwritten elements cannot be recognised.
  const bool poisoned = !r.c_in_place && !r.residual_in_place && r.fill != Fill::kSpecial;
  result.what = check_memory(data.d, poisoned);
  if (!result.what.empty()) return result;
  if (result.total == 0) {
    result.ok = true;
    result.what = "there are no elements to compare";
    return result;
  }
  const Sample sample = choose_sample(r, random);
  const Worst worst = compare(r, data, sample);
  result.checked = static_cast<int64_t>(sample.batches.size() * sample.rows.size() * sample.columns.size());
  result.worst = worst.fraction;
  result.ok = worst.fraction <= 1;
  if (!result.ok) {
    result.what = absl::StrFormat(
        "batch %d row %d column %d is %.9g, but float64 gives %.9g; error %.3g times its bound", worst.batch,
        worst.row, worst.column, worst.got, worst.wanted, worst.fraction);
  } else {
    result.what = result.checked == result.total ? "every element" : describe_sample(r, sample);
  }
  return result;
}

}  // namespace lathe::reference
