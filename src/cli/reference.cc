#include "cli/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_format.h"

namespace lathe::cli {
namespace {

constexpr double kEpsilon = 0x1p-23;
constexpr int64_t kBudget = int64_t{1} << 27;  // multiply-adds of the reference: about a third of a second

double activate(lathe_activation activation, double x) {
  switch (activation) {
    case LATHE_ACTIVATION_NONE: return x;
    case LATHE_ACTIVATION_RELU: return x > 0 ? x : 0;
    case LATHE_ACTIVATION_GELU: return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case LATHE_ACTIVATION_GELU_TANH:
      return x * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case LATHE_ACTIVATION_SILU: return x / (1 + std::exp(-x));
  }
  return NAN;
}

// All of [0, size), or `wanted` of it: both ends and random ones in between, ascending, each once.
std::vector<int64_t> choose(int64_t size, int64_t wanted, Normal* random) {
  std::vector<int64_t> chosen;
  if (wanted >= size) {
    for (int64_t i = 0; i < size; ++i) chosen.push_back(i);
    return chosen;
  }
  chosen = {0, size - 1};
  while (static_cast<int64_t>(chosen.size()) < wanted) chosen.push_back(random->bits() % size);
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

struct Dot {
  double sum = 0, magnitude = 0;
};
Dot dot(const float* a, const float* b, int64_t k) {
  double sum[4] = {}, magnitude[4] = {};  // four chains, so that the additions overlap
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
  return {sum[0] + sum[1] + sum[2] + sum[3], magnitude[0] + magnitude[1] + magnitude[2] + magnitude[3]};
}

struct Expected {
  double value, bound;
};
Expected epilogue(const MatmulRequest& r, const MatmulData& data, Dot ab, int64_t column, int64_t at) {
  const double scaled = r.alpha * ab.sum, c = r.beta != 0 ? r.beta * data.c.at(at) : 0,
               bias = r.bias ? data.bias.at(column) : 0, residual = r.residual ? data.residual.at(at) : 0;
  const double before = scaled + c + bias, after = activate(r.activation, before), value = after + residual;
  double bound = 6 * kEpsilon * std::fabs(r.alpha) * ab.magnitude;
  bound += 3 * kEpsilon *
           (std::fabs(scaled) + std::fabs(c) + std::fabs(bias) + std::fabs(after) + std::fabs(residual));
  // An activation's slope is at most 1.13, and its approximation is granted 8 eps of its argument.
  if (r.activation != LATHE_ACTIVATION_NONE) bound = 1.13 * bound + 8 * kEpsilon * std::fabs(before);
  bound += rounding(r.out_dtype) * (std::fabs(value) + bound) + smallest_rounding(r.out_dtype);
  return {value, bound};
}

// As many f32 of row `i` of A (or column of B) as K has.
void gather(const Array& from, bool contiguous, int64_t base, int64_t i, int64_t k, int64_t pitch,
            float* out) {
  for (int64_t p = 0; p < k; ++p) out[p] = from.at(base + (contiguous ? i * k + p : p * pitch + i));
}

int64_t count_poison(const Array& d) {
  int64_t poisoned = 0;
  const size_t size = bytes_of(d.dtype);
  static constexpr uint8_t kPoison[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  for (int64_t i = 0; i < d.count; ++i)
    poisoned += std::memcmp(d.bytes.data() + i * size, kPoison, size) == 0;
  return poisoned;
}

}  // namespace

CheckResult check_matmul(const MatmulRequest& r, const MatmulData& data, Normal* random) {
  CheckResult result;
  result.total = data.d.count;
  if (const int64_t poisoned = count_poison(data.d); poisoned > 0) {
    result.what = absl::StrFormat("%d of %d elements were never written", poisoned, result.total);
    return result;
  }
  if (result.total == 0) {
    result.ok = true;
    result.what = "there is nothing to compare";
    return result;
  }
  const std::vector<int64_t> batches = choose(r.batch, 4, random);
  const int64_t budget = kBudget / static_cast<int64_t>(batches.size()) / std::max<int64_t>(r.k, 1);
  const bool whole_matrix = r.m <= budget / r.n;
  const std::vector<int64_t> rows = choose(r.m, whole_matrix ? r.m : 24, random);
  const std::vector<int64_t> columns = choose(
      r.n, whole_matrix ? r.n : std::max<int64_t>(8, budget / static_cast<int64_t>(rows.size())), random);

  std::vector<float> a(rows.size() * r.k), b(r.k);
  double worst_got = 0, worst_wanted = 0;
  int64_t worst_at = 0;
  for (int64_t batch : batches) {
    for (size_t i = 0; i < rows.size(); ++i) {
      gather(data.a, !r.trans_a, batch * r.m * r.k, rows[i], r.k, r.m, a.data() + i * r.k);
    }
    for (int64_t column : columns) {
      gather(data.b, r.trans_b, batch * r.n * r.k, column, r.k, r.n, b.data());
      for (size_t i = 0; i < rows.size(); ++i) {
        const int64_t at = (batch * r.m + rows[i]) * r.n + column;
        const Expected expected = epilogue(r, data, dot(a.data() + i * r.k, b.data(), r.k), column, at);
        const double got = data.d.at(at), error = std::fabs(got - expected.value);
        // Beyond the dtype's range the right answer is infinity; NaN compares false and fails.
        const bool overflow = r.out_dtype == LATHE_F16 && std::fabs(expected.value) + expected.bound >= 65504;
        const double fraction = overflow && std::isinf(got)     ? 0
                                : error <= expected.bound * 1e6 ? error / expected.bound
                                                                : 1e6;
        if (fraction >= result.worst) {
          result.worst = fraction;
          worst_at = at;
          worst_got = got;
          worst_wanted = expected.value;
        }
        ++result.checked;
      }
    }
  }
  result.ok = result.worst <= 1;
  if (!result.ok) {
    const int64_t batch = worst_at / (r.m * r.n), row = worst_at / r.n % r.m, column = worst_at % r.n;
    result.what =
        absl::StrFormat("batch %d row %d column %d is %.9g, float64 says %.9g, error %.3g times its bound",
                        batch, row, column, worst_got, worst_wanted, result.worst);
  } else if (result.checked == result.total) {
    result.what = "every element";
  } else {
    const std::string of =
        r.batch > 1 ? absl::StrFormat(" of %d of %d matrices", batches.size(), r.batch) : "";
    result.what = absl::StrFormat("%d rows by %d columns%s, and that every element was written", rows.size(),
                                  columns.size(), of);
  }
  return result;
}

CheckResult check_argmax(const ArgmaxRequest& r, const Array& x, const Array& indices, const Array& values) {
  CheckResult result;
  result.total = result.checked = r.rows;
  result.what = "every row";
  for (int64_t row = 0; row < r.rows; ++row) {
    int64_t best = 0, got = 0;
    for (int64_t i = 1; i < r.n; ++i) {
      if (x.at(row * r.n + i) > x.at(row * r.n + best)) best = i;
    }
    if (r.index_dtype == LATHE_I64) {
      std::memcpy(&got, indices.bytes.data() + row * 8, 8);
    } else {
      int32_t narrow = 0;
      std::memcpy(&narrow, indices.bytes.data() + row * 4, 4);
      got = narrow;
    }
    const bool value_ok = !r.values || values.at(row) == x.at(row * r.n + best);
    if (got != best || !value_ok) {
      result.worst = INFINITY;
      result.what = absl::StrFormat("row %d: got index %d%s, its maximum %.9g is at %d", row, got,
                                    r.values ? absl::StrFormat(" and value %.9g", values.at(row)) : "",
                                    x.at(row * r.n + best), best);
      return result;
    }
  }
  result.ok = true;
  return result;
}

}  // namespace lathe::cli
