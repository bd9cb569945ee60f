#include "reference/matmul_argmax.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "absl/strings/str_format.h"
#include "reference/matmul.h"

namespace lathe::reference {

bool MatmulArgmaxRequest::operator==(const MatmulArgmaxRequest& o) const {
  const auto fields = [](const MatmulArgmaxRequest& r) {
    return std::tie(r.m, r.n, r.k, r.dtype, r.b_dtype, r.logits_dtype, r.math, r.trans_a, r.trans_b, r.bias,
                    r.packed);
  };
  return IndicesRequest::operator==(o) && fields(*this) == fields(o);
}

MatmulArgmaxSpecs specs_of(const MatmulArgmaxRequest& r) {
  OperandSpec spec;
  spec.misalign = r.misalign;
  const auto matrix = [&](lathe_dtype dtype, int64_t rows, int64_t columns) {
    return matrix_spec(spec, dtype, rows, columns);
  };
  MatmulArgmaxSpecs specs;
  specs.indices = matrix(r.index_dtype, 1, r.m);
  if (r.values) specs.values = matrix(LATHE_F32, 1, r.m);
  if (r.bias) specs.bias = matrix(r.logits_dtype, 1, r.n);
  spec.padding = r.padding;
  specs.a = matrix(r.dtype, r.m, r.k);
  specs.a.transposed = r.trans_a;
  specs.b = matrix(r.weight_dtype(), r.k, r.n);
  specs.b.padding = whole_blocks(r.weight_dtype(), r.padding);
  specs.b.transposed = r.trans_b;
  return specs;
}

namespace {

double rounded_to(lathe_dtype dtype, double value) {
  double bits = 0;  // memory for one element of any dtype
  store(&bits, dtype, 0, value);
  return load(&bits, dtype, 0);
}

// Decides whether the logits of one row allow the index that the kernel returned. Each logit has a range [least,
// greatest], or may be any infinity or NaN.
struct ClaimedMaximum {
  int64_t index = 0, first_nan = -1;
  bool may_be_nan = false;                       // the returned column
  double least = NAN, greatest = NAN;            // the range of the returned column
  double before = -INFINITY, after = -INFINITY;  // the greatest `least` of the columns before and after it
  int64_t before_at = -1, after_at = -1;

  void add_not_finite(int64_t column) {
    may_be_nan |= column == index;
    add(column, -INFINITY, INFINITY);
  }
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
    if (may_be_nan && (first_nan < 0 || first_nan > index)) return "";
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
    if (first_nan >= 0 || (may_be_nan && std::isnan(value))) return std::isnan(value);
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
  product.b_dtype = r.b_dtype;
  product.math = r.math;
  product.fill = r.fill;
  product.k = r.k;
  const double sum = ab.sum + bias, bound = sum_bound(product, ab.magnitude) + ab.rounded;
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
  BlockColumn blocks;
  if (rounds_to_bytes(r.math, r.weight_dtype()))
    blocks = {block_format(r.weight_dtype()), std::vector<float>(k)};
  std::vector<ClaimedMaximum> claims(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    claims[i].index = column_of(data.indices.integer_at(0, 0, rows[i]), r.index_offset);
    for (size_t p = 0; p < k; ++p)
      a[i * k + p] = static_cast<float>(data.a.at(0, rows[i], static_cast<int64_t>(p)));
  }
  for (int64_t column = 0; column < r.n; ++column) {
    for (size_t p = 0; p < k; ++p) b[p] = static_cast<float>(data.b.at(0, static_cast<int64_t>(p), column));
    blocks.read(data.b, 0, column);
    const double bias = r.bias ? data.bias.at(0, 0, column) : 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      Dot ab = dot(a.data() + i * k, b.data(), r.k);
      if (blocks.format != nullptr) {
        // A NaN or infinity that is rounded to int8 may give NaN or any infinity.
        if (!std::isfinite(ab.sum)) {
          claims[i].add_not_finite(column);
          continue;
        }
        ab.rounded = rounding_to_bytes(a.data() + i * k, blocks);
      }
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

}  // namespace lathe::reference
