#include "reference/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"

namespace lathe::cli {
namespace {

constexpr double kEpsilon = 0x1p-23;
constexpr int64_t kBudget = int64_t{1} << 27;  // multiply-adds of one check, to limit its time

double activate(lathe_activation activation, double x) {
  switch (activation) {
    case LATHE_ACTIVATION_NONE: return x;
    case LATHE_ACTIVATION_RELU: return x < 0 ? 0 : x;
    case LATHE_ACTIVATION_GELU: return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case LATHE_ACTIVATION_GELU_TANH:
      return x * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case LATHE_ACTIVATION_SILU: return x / (1 + std::exp(-x));
  }
  return NAN;
}

// All numbers of [0, size), or about `wanted` of them: both ends and random ones, ascending, without duplicates.
std::vector<int64_t> choose(int64_t size, int64_t wanted, Normal* random) {
  std::vector<int64_t> chosen;
  if (wanted >= size) {
    for (int64_t i = 0; i < size; ++i) chosen.push_back(i);
    return chosen;
  }
  chosen = {0, size - 1};
  while (static_cast<int64_t>(chosen.size()) < wanted) chosen.push_back(random->below(size));
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

// A dot product. `rounded` bounds the error from rounding A to int8, block by block.
struct Dot {
  double sum = 0, magnitude = 0, rounded = 0;
};
Dot dot(const float* a, const float* b, int64_t k) {
  double sum[4] = {}, magnitude[4] = {};  // four independent chains of additions, for speed
  int64_t i = 0;
  for (; i + 4 <= k; i += 4) {
    for (int lane = 0; lane < 4; ++lane) {
      const double p = static_cast<double>(a[i + lane]) * b[i + lane];
      sum[lane] += p;
      magnitude[lane] += std::fabs(p);
    }
  }
  for (; i < k; ++i) {
    const double p = static_cast<double>(a[i]) * b[i];
    sum[0] += p;
    magnitude[0] += std::fabs(p);
  }
  return {sum[0] + sum[1] + sum[2] + sum[3], magnitude[0] + magnitude[1] + magnitude[2] + magnitude[3], 0};
}

// A column of weights in blocks: the format, and the sum of both terms' magnitudes of each element (BlockParts).
struct BlockColumn {
  const BlockFormat* format = nullptr;
  std::vector<float> magnitudes;
};

// The error of LATHE_MATH_INT8: each element of A is off by up to half a scale (largest magnitude of the block / 127).
// Scales in f16 are off by 2^-11 of it, or by half of f16's smallest subnormal; so is what multiplies a minimum. 4 eps
// more cover the rounding of the quotient.
double rounding_to_bytes(const float* a, const BlockColumn& b, int64_t k) {
  const int64_t block = b.format->elements;
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
bool rounds_to_bytes(const MatmulRequest& r) {
  const BlockFormat* weights = block_format(r.weight_dtype());
  return r.math == LATHE_MATH_INT8 && weights != nullptr;
}

double sum_bound(const MatmulRequest& r, double magnitude) {
  if (r.dtype == LATHE_I8) return 0;
  if (r.fill == Fill::kIntegers && !rounds_to_bytes(r) && magnitude <= (is_f8(r.dtype) ? 0x1p13 : 0x1p24))
    return 0;
  double part = 6 * kEpsilon * std::max(1.0, std::sqrt(static_cast<double>(r.k) / 4096));
  if (r.math == LATHE_MATH_TF32 && r.dtype == LATHE_F32) part += 0x1p-9;
  if (r.math == LATHE_MATH_BF16 && r.dtype == LATHE_F32 && r.weight_dtype() == LATHE_BF16) part += 0x1p-8;
  if (is_f8(r.dtype)) part += 0x1p-10;
  return part * magnitude;
}

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
  const bool smooth = r.activation != LATHE_ACTIVATION_NONE && r.activation != LATHE_ACTIVATION_RELU;
  e.may_be_nan = smooth && before == -INFINITY;
  const double after = e.may_be_nan ? 0 : activate(r.activation, before);
  e.value = after + residual;
  e.bound = std::fabs(r.alpha) * (sum_bound(r, ab.magnitude) + ab.rounded);
  e.bound += 3 * kEpsilon *
             (std::fabs(scaled) + std::fabs(c) + std::fabs(bias) + std::fabs(after) + std::fabs(residual));
  // The slope of an activation is at most 1.13. Its approximation may be off by 8 eps of the argument.
  if (r.activation != LATHE_ACTIVATION_NONE) e.bound = 1.13 * e.bound + 8 * kEpsilon * std::fabs(before);
  e.is_any_not_finite = rounds_to_bytes(r) && !std::isfinite(ab.sum);
  e.is_activated = r.activation != LATHE_ACTIVATION_NONE;
  if (std::isinf(before))
    e.bound = 3 * kEpsilon * std::fabs(residual);  // the result is infinite, or equals the residual
  e.bound += rounding(r.out_dtype) * (std::fabs(e.value) + e.bound) + smallest_rounding(r.out_dtype);
  return e;
}

// |got - expected| as a fraction of the bound, at most 1e6. 1e6 also stands for a wrong NaN or infinity.
double fraction_of_bound(const Expected& e, double got, lathe_dtype dtype) {
  constexpr double kWrong = 1e6;
  if (e.is_any_not_finite) return std::isfinite(got) && !e.is_activated ? kWrong : 0;
  if (std::isnan(got) && e.may_be_nan) return 0;
  if (std::isnan(e.value)) return std::isnan(got) ? 0 : kWrong;
  if (std::isinf(e.value)) return got == e.value ? 0 : kWrong;
  // A result beyond the dtype's range may be infinity.
  const bool overflow = !is_integer(dtype) && std::fabs(e.value) + e.bound >= largest(dtype);
  if (overflow && std::isinf(got)) return std::signbit(got) == std::signbit(e.value) ? 0 : kWrong;
  const double error = std::fabs(got - e.value);
  if (error == 0) return 0;
  return error <= e.bound * kWrong ? error / e.bound : kWrong;
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

Worst compare(const MatmulRequest& r, const MatmulData& data, const Sample& sample) {
  Worst worst;
  const auto k = static_cast<size_t>(r.k);
  std::vector<float> a(sample.rows.size() * k), b(k);
  BlockColumn blocks;
  if (rounds_to_bytes(r)) blocks = {block_format(r.weight_dtype()), std::vector<float>(k)};
  for (int64_t batch : sample.batches) {
    for (size_t i = 0; i < sample.rows.size(); ++i) {
      for (size_t p = 0; p < k; ++p) {
        a[i * k + p] = static_cast<float>(data.a.at(batch, sample.rows[i], static_cast<int64_t>(p)));
      }
    }
    for (int64_t column : sample.columns) {
      for (size_t p = 0; p < k; ++p)
        b[p] = static_cast<float>(data.b.at(batch, static_cast<int64_t>(p), column));
      for (size_t p = 0; p < blocks.magnitudes.size(); ++p)
        blocks.magnitudes[p] = data.b.block_magnitude(batch, static_cast<int64_t>(p), column);
      for (size_t i = 0; i < sample.rows.size(); ++i) {
        const int64_t row = sample.rows[i];
        Dot ab = dot(a.data() + i * k, b.data(), r.k);
        if (rounds_to_bytes(r)) ab.rounded = rounding_to_bytes(a.data() + i * k, blocks, r.k);
        const Expected expected = epilogue(r, data, ab, batch, row, column);
        const double got = data.d.at(batch, row, column);
        const double fraction = fraction_of_bound(expected, got, r.out_dtype);
        if (fraction >= worst.fraction) worst = {fraction, got, expected.value, batch, row, column};
      }
    }
  }
  return worst;
}

std::string describe_sample(const MatmulRequest& r, const Sample& s) {
  const std::string of =
      r.batch > 1 ? absl::StrFormat(" of %d of %d matrices", s.batches.size(), r.batch) : "";
  return absl::StrFormat("%d rows by %d columns%s, and that every element was written", s.rows.size(),
                         s.columns.size(), of);
}

// "" if every element was written, and nothing outside the elements.
std::string check_memory(const Operand& d, bool starts_as_poison) {
  if (const std::string stray = d.stray_write(); !stray.empty()) return stray;
  const int64_t unwritten = starts_as_poison ? d.unwritten() : 0;
  return unwritten == 0 ? ""
                        : absl::StrFormat("%d of %d elements were never written", unwritten, d.elements());
}

}  // namespace

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

CheckResult check_argmax(const ArgmaxRequest& r, const ArgmaxData& data) {
  CheckResult result;
  result.total = r.rows;
  result.what = check_memory(data.indices, true);
  if (result.what.empty() && r.values) {
    // Poison is NaN, and with special values a row's maximum may be NaN.
    result.what = check_memory(data.values, r.fill != Fill::kSpecial);
  }
  if (!result.what.empty()) return result;
  result.checked = r.rows;
  result.what = "every row";
  for (int64_t row = 0; row < r.rows; ++row) {
    int64_t best = 0;
    for (int64_t i = 0; i < r.n; ++i) {
      const double x = data.x.at(0, row, i), so_far = data.x.at(0, row, best);
      if (!std::isnan(so_far) && (std::isnan(x) || x > so_far)) best = i;
    }
    const double maximum = data.x.at(0, row, best);
    const int64_t got = data.indices.integer_at(0, 0, row);
    const double value = r.values ? data.values.at(0, 0, row) : maximum;
    const bool value_ok = value == maximum || (std::isnan(value) && std::isnan(maximum));
    if (got == best + r.index_offset && value_ok) continue;
    result.worst = std::numeric_limits<double>::infinity();
    result.what = absl::StrFormat("row %d: got index %d%s, but the maximum %.9g is at %d", row, got,
                                  r.values ? absl::StrFormat(" and value %.9g", value) : "", maximum,
                                  best + r.index_offset);
    return result;
  }
  result.ok = true;
  return result;
}

namespace {

double rounded_to(lathe_dtype dtype, double value) {
  double bits = 0;  // memory for one element of any dtype
  store(&bits, dtype, 0, value);
  return load(&bits, dtype, 0);
}

// Decides whether the logits of one row allow the index that the kernel returned. Each logit has a range [least,
// greatest].
struct ClaimedMaximum {
  int64_t index = 0, first_nan = -1;
  double least = NAN, greatest = NAN;            // the range of the returned column
  double before = -INFINITY, after = -INFINITY;  // the greatest `least` of the columns before and after it
  int64_t before_at = -1, after_at = -1;

  void add(int64_t column, double low, double high) {
    if (std::isnan(low)) {
      if (first_nan < 0) first_nan = column;
    } else if (column == index) {
      least = low, greatest = high;
    } else if (column < index && (before_at < 0 || low > before)) {
      before = low, before_at = column;
    } else if (column > index && (after_at < 0 || low > after)) {
      after = low, after_at = column;
    }
  }
  // Why the returned index is wrong; "" if it can be right. The lower column wins a tie.
  std::string defect() const {
    if (first_nan >= 0)
      return index == first_nan ? "" : absl::StrFormat("column %d is the first NaN", first_nan);
    if (std::isnan(least)) return "there is no such column";
    if (before_at >= 0 && !(greatest > before))
      return absl::StrFormat("its logit is %.9g, column %d has %.9g", greatest, before_at, before);
    if (after_at >= 0 && !(greatest >= after))
      return absl::StrFormat("its logit is %.9g, column %d has %.9g", greatest, after_at, after);
    return "";
  }
  bool holds(double value) const {
    if (first_nan >= 0) return std::isnan(value);
    return value >= std::max({least, before, after}) && value <= greatest;
  }
};

// The column of an index. A wrong index, such as poison, may wrap around and then gives no valid column.
int64_t column_of(int64_t index, int64_t offset) {
  return static_cast<int64_t>(static_cast<uint64_t>(index) - static_cast<uint64_t>(offset));
}

// The bound of a logit's error before it is rounded to its dtype; 0 if the sum is exact.
double logit_bound(const MatmulArgmaxRequest& r, Dot ab, double bias) {
  MatmulRequest product;
  product.dtype = r.dtype;
  product.math = r.math;
  product.fill = r.fill;
  product.k = r.k;
  const double sum = ab.sum + bias, bound = sum_bound(product, ab.magnitude);
  if (!std::isfinite(sum) || (bound == 0 && r.fill == Fill::kIntegers)) return 0;
  return bound + 2 * kEpsilon * (std::fabs(ab.sum) + std::fabs(bias));
}

}  // namespace

CheckResult check_matmul_argmax(const MatmulArgmaxRequest& r, const MatmulArgmaxData& data, Normal* random) {
  CheckResult result;
  result.total = r.m;
  result.what = check_memory(data.indices, true);
  if (result.what.empty() && r.values) result.what = check_memory(data.values, r.fill != Fill::kSpecial);
  if (!result.what.empty()) return result;
  const int64_t row_cost = r.n * std::max<int64_t>(r.k, 1);
  const std::vector<int64_t> rows =
      choose(r.m, std::max<int64_t>(2, kBudget / std::max<int64_t>(row_cost, 1)), random);
  const auto k = static_cast<size_t>(r.k);
  std::vector<float> a(rows.size() * k), b(k);
  std::vector<ClaimedMaximum> claims(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    claims[i].index = column_of(data.indices.integer_at(0, 0, rows[i]), r.index_offset);
    for (size_t p = 0; p < k; ++p)
      a[i * k + p] = static_cast<float>(data.a.at(0, rows[i], static_cast<int64_t>(p)));
  }
  for (int64_t column = 0; column < r.n; ++column) {
    for (size_t p = 0; p < k; ++p) b[p] = static_cast<float>(data.b.at(0, static_cast<int64_t>(p), column));
    const double bias = r.bias ? data.bias.at(0, 0, column) : 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const Dot ab = dot(a.data() + i * k, b.data(), r.k);
      const double sum = ab.sum + bias, bound = logit_bound(r, ab, bias);
      claims[i].add(column, rounded_to(r.logits_dtype, sum - bound), rounded_to(r.logits_dtype, sum + bound));
    }
  }
  result.checked = static_cast<int64_t>(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    std::string defect = claims[i].defect();
    const double value = r.values ? data.values.at(0, 0, rows[i]) : 0;
    if (defect.empty() && r.values && !claims[i].holds(value))
      defect = absl::StrFormat("value %.9g is not the maximum", value);
    if (defect.empty()) continue;
    result.worst = std::numeric_limits<double>::infinity();
    result.what = absl::StrFormat("row %d: got index %d, but %s", rows[i],
                                  data.indices.integer_at(0, 0, rows[i]), defect);
    return result;
  }
  result.ok = true;
  result.what = result.checked == result.total ? "every row" : absl::StrFormat("%d rows", result.checked);
  return result;
}

}  // namespace lathe::cli
