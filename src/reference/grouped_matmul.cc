#include "reference/grouped_matmul.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "absl/strings/str_format.h"

namespace lathe::reference {
namespace {

// A row of A or D: its matrix of the batch, and its row there.
struct RowAt {
  int64_t batch, row;
};
// One use of a row by a group.
struct Use {
  int64_t token, slot;
  RowAt a, d;
};

// The uses of each group, in order, from the definition of each grouping.
std::vector<std::vector<Use>> uses_of_groups(const GroupedMatmulRequest& r,
                                             const std::vector<int32_t>& routing) {
  std::vector<std::vector<Use>> uses(static_cast<size_t>(r.groups));
  const auto add = [&](int64_t group, const Use& use) {
    if (group >= 0) uses[static_cast<size_t>(group)].push_back(use);
  };
  switch (r.grouping) {
    case LATHE_GROUPING_OFFSETS:
      for (int64_t g = 0; g < r.groups; ++g)
        for (int64_t i = routing[static_cast<size_t>(g)]; i < routing[static_cast<size_t>(g) + 1]; ++i)
          add(g, {i, 0, {0, i}, {0, i}});
      break;
    case LATHE_GROUPING_ROW_IDS:
      for (int64_t i = 0; i < r.m; ++i) add(routing[static_cast<size_t>(i)], {i, 0, {0, i}, {0, i}});
      break;
    case LATHE_GROUPING_COUNTS:
      for (int64_t g = 0; g < r.groups; ++g)
        for (int64_t i = 0; i < routing[static_cast<size_t>(g)]; ++i) add(g, {i, 0, {g, i}, {g, i}});
      break;
    case LATHE_GROUPING_INDEXED:
      for (int64_t t = 0; t < r.m; ++t)
        for (int64_t s = 0; s < r.used; ++s)
          add(routing[static_cast<size_t>(t * r.used + s)], {t, s, {r.shared_rows ? 0 : s, t}, {s, t}});
      break;
  }
  return uses;
}

const uint8_t* first_of(const Operand& o) {
  return static_cast<const uint8_t*>(o.first_at(const_cast<uint8_t*>(o.image().data())));
}

// Copies a row of a ROW_MAJOR operand to another one, bit by bit.
void copy_row(const Operand& from, const RowAt& at, Operand* to, int64_t row) {
  const OperandSpec& s = from.spec();
  const int64_t start = at.batch * s.batch_stride() + at.row * s.leading_dimension();
  for (int64_t j = 0; j < s.columns; ++j) to->copy(0, row, j, first_of(from), start + j);
}

// One matrix of a batch as an operand of its own.
Operand matrix_of(const Operand& batch, int64_t index) {
  OperandSpec spec = batch.spec();
  spec.batch = 1;
  Operand one(spec);
  const int64_t block = block_elements(spec.dtype);
  const size_t bytes = static_cast<size_t>(batch.spec().batch_stride() / block) * bytes_of(spec.dtype);
  std::memcpy(one.first_at(one.image().data()), first_of(batch) + static_cast<size_t>(index) * bytes, bytes);
  return one;
}

// The product of one group as a matmul. D is not filled.
MatmulRequest member_request(const GroupedMatmulRequest& r, int64_t rows) {
  MatmulRequest m;
  m.m = rows;
  m.n = r.n;
  m.k = r.k;
  m.dtype = r.dtype;
  m.b_dtype = r.b_dtype;
  m.out_dtype = r.summed ? LATHE_F32 : r.out_dtype;
  m.math = r.math;
  m.trans_b = r.trans_b;
  m.alpha = r.alpha;
  m.bias = r.bias;
  m.activation = r.activation;
  m.fill = r.fill;
  return m;
}
MatmulData member_data(const MatmulRequest& m, const GroupedMatmulData& data, int64_t group,
                       const std::vector<Use>& uses) {
  MatmulSpecs specs = specs_of(m);
  MatmulData out;
  out.a = Operand(specs.a);
  for (size_t i = 0; i < uses.size(); ++i) copy_row(data.a, uses[i].a, &out.a, static_cast<int64_t>(i));
  out.b = matrix_of(data.b, group);
  if (m.bias) out.bias = matrix_of(data.bias, group);
  out.d = Operand(specs.d);
  return out;
}

// "" if every row of the uses was written, and nothing else.
std::string check_written(const GroupedMatmulRequest& r, const GroupedMatmulData& data, int64_t rows) {
  if (std::string stray = data.d.stray_write(); !stray.empty()) return stray;
  const int64_t unwritten = data.d.elements() - rows * r.n;
  if (data.d.unwritten() == unwritten) return "";
  return absl::StrFormat("%d elements were not written, but %d belong to no group", data.d.unwritten(),
                         unwritten);
}

CheckResult check_sums(const GroupedMatmulRequest& r, const GroupedMatmulData& data,
                       const std::vector<std::vector<Use>>& uses) {
  std::vector<ExpectedElement> sums(static_cast<size_t>(r.m * r.n));
  for (size_t g = 0; g < uses.size(); ++g) {
    if (uses[g].empty()) continue;
    const MatmulRequest member = member_request(r, static_cast<int64_t>(uses[g].size()));
    const std::vector<ExpectedElement> rows =
        expected_elements(member, member_data(member, data, static_cast<int64_t>(g), uses[g]));
    for (size_t i = 0; i < uses[g].size(); ++i) {
      const Use& use = uses[g][i];
      const double weight = data.weights[static_cast<size_t>(use.token * r.used + use.slot)];
      for (int64_t j = 0; j < r.n; ++j) {
        const ExpectedElement& e = rows[i * static_cast<size_t>(r.n) + static_cast<size_t>(j)];
        ExpectedElement& sum = sums[static_cast<size_t>(use.token * r.n + j)];
        sum.value += weight * e.value;
        // The weight's product and each of the following additions round.
        sum.bound +=
            std::fabs(weight) * (e.bound + static_cast<double>(r.used + 1) * kEpsilon * std::fabs(e.value));
      }
    }
  }
  CheckResult result{true, r.m * r.n, r.m * r.n};
  result.what = "every element";
  for (int64_t t = 0; t < r.m; ++t) {
    for (int64_t j = 0; j < r.n; ++j) {
      const ExpectedElement& e = sums[static_cast<size_t>(t * r.n + j)];
      const double got = data.d.at(0, t, j);
      const double bound =
          e.bound + rounding(r.out_dtype) * (std::fabs(e.value) + e.bound) + smallest_rounding(r.out_dtype);
      const double fraction = std::isnan(got) ? 1e6 : std::fabs(got - e.value) / bound;
      if (fraction <= result.worst) continue;
      result.worst = fraction;
      if (fraction <= 1) continue;
      result.ok = false;
      result.what =
          absl::StrFormat("token %d column %d is %.9g, but float64 gives %.9g; error %.3g times its bound", t,
                          j, got, e.value, fraction);
    }
  }
  return result;
}

}  // namespace

GroupedMatmulSpecs specs_of(const GroupedMatmulRequest& r) {
  OperandSpec common;
  common.padding = r.padding;
  common.misalign = r.misalign;
  const bool indexed = r.grouping == LATHE_GROUPING_INDEXED;
  const bool counts = r.grouping == LATHE_GROUPING_COUNTS;
  const auto batch = [&](int64_t count) {
    OperandSpec spec = common;
    spec.batch = count;
    return spec;
  };
  GroupedMatmulSpecs specs;
  specs.a = matrix_spec(batch(counts ? r.groups : indexed && !r.shared_rows ? r.used : 1), r.dtype, r.m, r.k);
  specs.d = matrix_spec(batch(counts ? r.groups : indexed && !r.summed ? r.used : 1), r.out_dtype, r.m, r.n);
  common.padding = 0;  // of weights and the bias, whose groups follow each other
  specs.b = matrix_spec(batch(r.groups), r.weight_dtype(), r.k, r.n);
  specs.b.transposed = r.trans_b;
  if (r.bias) specs.bias = matrix_spec(batch(r.groups), r.summed ? LATHE_F32 : r.out_dtype, 1, r.n);
  return specs;
}

std::vector<int32_t> random_routing(const GroupedMatmulRequest& r, Normal* random) {
  std::vector<int32_t> routing;
  // Half of the time, a few groups have most rows.
  const int64_t favoured =
      random->below(2) != 0 ? std::min<int64_t>(r.groups, 1 + random->below(2)) : r.groups;
  const auto group = [&] { return random->below(random->below(4) != 0 ? favoured : r.groups); };
  const auto id = [&] { return static_cast<int32_t>(random->below(8) == 0 ? -1 : group()); };
  switch (r.grouping) {
    case LATHE_GROUPING_OFFSETS:
      for (int64_t i = 0; i <= r.groups; ++i) routing.push_back(static_cast<int32_t>(random->below(r.m + 1)));
      std::sort(routing.begin(), routing.end());
      break;
    case LATHE_GROUPING_ROW_IDS:
      for (int64_t i = 0; i < r.m; ++i) routing.push_back(id());
      if (random->below(2) != 0) std::sort(routing.begin(), routing.end());
      break;
    case LATHE_GROUPING_COUNTS:
      for (int64_t i = 0; i < r.groups; ++i)
        routing.push_back(static_cast<int32_t>(random->below(3) == 0 ? 0 : random->below(r.m + 1)));
      break;
    case LATHE_GROUPING_INDEXED:
      for (int64_t i = 0; i < r.m * r.used; ++i) routing.push_back(id());
      break;
  }
  return routing;
}

CheckResult check_grouped_matmul(const GroupedMatmulRequest& r, const GroupedMatmulData& data,
                                 Normal* random) {
  const std::vector<std::vector<Use>> uses = uses_of_groups(r, data.routing);
  const int64_t rows = std::accumulate(
      uses.begin(), uses.end(), int64_t{0},
      [](int64_t sum, const auto& of_group) { return sum + static_cast<int64_t>(of_group.size()); });
  CheckResult result;
  if (r.fill != Fill::kSpecial) result.what = check_written(r, data, r.summed ? r.m : rows);
  if (!result.what.empty()) return result;
  if (r.summed) return check_sums(r, data, uses);
  result.ok = true;
  result.what = "every element";
  result.total = data.d.elements();
  for (size_t g = 0; g < uses.size(); ++g) {
    if (uses[g].empty()) continue;
    const MatmulRequest member = member_request(r, static_cast<int64_t>(uses[g].size()));
    MatmulData of_group = member_data(member, data, static_cast<int64_t>(g), uses[g]);
    for (size_t i = 0; i < uses[g].size(); ++i)
      copy_row(data.d, uses[g][i].d, &of_group.d, static_cast<int64_t>(i));
    const CheckResult checked = check_matmul(member, of_group, random);
    result.checked += checked.checked;
    result.worst = std::max(result.worst, checked.worst);
    if (checked.ok) continue;
    result.ok = false;
    result.what = absl::StrFormat("group %d of %d rows: %s", g, member.m, checked.what);
  }
  return result;
}

}  // namespace lathe::reference
