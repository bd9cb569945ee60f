#include "reference/grouped_matmul.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <tuple>

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

// Columns first, first + step and so on of a matrix of a batch, as an operand of their own.
struct Columns {
  int64_t first = 0, step = 1, count = 0;
};
Operand columns_of(const Operand& batch, int64_t index, const Columns& columns) {
  OperandSpec spec = batch.spec();
  spec.batch = 1;
  spec.columns = columns.count;
  Operand out(spec);
  const int64_t start = index * batch.spec().batch_stride();
  if (spec.transposed) {
    // Whole columns follow each other, also in blocks.
    const auto bytes = static_cast<size_t>(spec.rows / block_elements(spec.dtype)) * bytes_of(spec.dtype);
    const uint8_t* const from =
        first_of(batch) + static_cast<size_t>(start / block_elements(spec.dtype)) * bytes_of(spec.dtype);
    auto* const to = static_cast<uint8_t*>(out.first_at(out.image().data()));
    for (int64_t j = 0; j < columns.count; ++j)
      std::memcpy(to + static_cast<size_t>(j) * bytes,
                  from + static_cast<size_t>(columns.first + j * columns.step) * bytes, bytes);
    return out;
  }
  for (int64_t i = 0; i < spec.rows; ++i)
    for (int64_t j = 0; j < columns.count; ++j)
      out.copy(0, i, j, first_of(batch),
               start + i * batch.spec().leading_dimension() + columns.first + j * columns.step);
  return out;
}

// A product of one group as a matmul. D is not filled.
MatmulRequest member_request(const GroupedMatmulRequest& r, int64_t rows) {
  MatmulRequest m;
  m.m = rows;
  m.n = r.d_columns();
  m.k = r.k;
  m.dtype = r.dtype;
  m.b_dtype = r.b_dtype;
  m.out_dtype = r.summed || r.gate != LATHE_GATE_NONE ? LATHE_F32 : r.out_dtype;
  m.math = r.math;
  m.trans_b = r.trans_b;
  m.alpha = r.alpha;
  m.bias = r.bias;
  m.activation = r.activation;
  m.fill = r.fill;
  m.a_format = r.a_format;
  m.b_format = r.b_format;
  return m;
}
MatmulData member_data(const MatmulRequest& m, const GroupedMatmulData& data, int64_t group,
                       const std::vector<Use>& uses, const Columns& columns) {
  MatmulSpecs specs = specs_of(m);
  MatmulData out;
  out.a = Operand(specs.a);
  for (size_t i = 0; i < uses.size(); ++i) copy_row(data.a, uses[i].a, &out.a, static_cast<int64_t>(i));
  out.b = columns_of(data.b, group, columns);
  if (m.bias) out.bias = columns_of(data.bias, group, columns);
  out.d = Operand(specs.d);
  return out;
}

lathe_activation activation_of(lathe_gate gate) {
  constexpr lathe_activation kActivations[] = {LATHE_ACTIVATION_NONE, LATHE_ACTIVATION_SILU,
                                               LATHE_ACTIVATION_GELU, LATHE_ACTIVATION_GELU_TANH,
                                               LATHE_ACTIVATION_RELU, LATHE_ACTIVATION_SILU_CLAMPED};
  return kActivations[gate];
}

// Keeps the uses of some tokens if comparing all of them takes long. Random tokens, the first and the last.
void keep_some(const GroupedMatmulRequest& r, Normal* random, std::vector<std::vector<Use>>* uses) {
  constexpr double kMostProducts = 4e9;
  double products = 0;
  for (const std::vector<Use>& of_group : *uses)
    products += static_cast<double>(of_group.size()) * static_cast<double>(r.n) * static_cast<double>(r.k);
  if (products <= kMostProducts) return;
  const auto one_in = static_cast<int64_t>(products / kMostProducts) + 1;
  std::vector<char> kept(static_cast<size_t>(r.m));
  for (char& keep : kept) keep = random->below(one_in) == 0;
  kept.front() = kept.back() = 1;
  for (std::vector<Use>& of_group : *uses)
    of_group.erase(std::remove_if(of_group.begin(), of_group.end(),
                                  [&](const Use& use) { return kept[static_cast<size_t>(use.token)] == 0; }),
                   of_group.end());
}

// The rows of a group in float64, before they are rounded to D's dtype.
std::vector<ExpectedElement> expected_rows(const GroupedMatmulRequest& r, const GroupedMatmulData& data,
                                           int64_t group, const std::vector<Use>& uses) {
  MatmulRequest m = member_request(r, static_cast<int64_t>(uses.size()));
  if (r.gate == LATHE_GATE_NONE) return expected_elements(m, member_data(m, data, group, uses, {0, 1, r.n}));
  const bool interleaved = r.gate_layout == LATHE_GATE_INTERLEAVED;
  const int64_t half = r.n / 2, step = interleaved ? 2 : 1;
  m.activation = activation_of(r.gate);
  std::vector<ExpectedElement> rows =
      expected_elements(m, member_data(m, data, group, uses, {0, step, half}));
  m.activation = r.gate == LATHE_GATE_CLAMPED ? LATHE_ACTIVATION_CLAMP_PLUS_ONE : LATHE_ACTIVATION_NONE;
  const std::vector<ExpectedElement> up =
      expected_elements(m, member_data(m, data, group, uses, {interleaved ? 1 : half, step, half}));
  for (size_t i = 0; i < rows.size(); ++i) {
    const ExpectedElement g = rows[i];
    rows[i].value = g.value * up[i].value;
    rows[i].bound = g.bound * std::fabs(up[i].value) + up[i].bound * (std::fabs(g.value) + g.bound) +
                    kEpsilon * std::fabs(rows[i].value);
  }
  return rows;
}

int64_t count_of(const std::vector<std::vector<Use>>& uses) {
  return std::accumulate(uses.begin(), uses.end(), int64_t{0}, [](int64_t sum, const auto& of_group) {
    return sum + static_cast<int64_t>(of_group.size());
  });
}

// "" if every row of the uses was written, and nothing else.
std::string check_written(const GroupedMatmulRequest& r, const GroupedMatmulData& data, int64_t rows) {
  if (std::string stray = data.d.stray_write(); !stray.empty()) return stray;
  const int64_t unwritten = data.d.elements() - rows * r.d_columns();
  if (data.d.unwritten() == unwritten) return "";
  return absl::StrFormat("%d elements were not written, but %d belong to no group", data.d.unwritten(),
                         unwritten);
}

// Compares a row of D with its elements in float64.
void check_row(const GroupedMatmulRequest& r, const Operand& d, const RowAt& at, const ExpectedElement* row,
               CheckResult* result) {
  for (int64_t j = 0; j < r.d_columns(); ++j) {
    const ExpectedElement& e = row[j];
    const double got = d.at(at.batch, at.row, j);
    const double bound =
        e.bound + rounding(r.out_dtype) * (std::fabs(e.value) + e.bound) + smallest_rounding(r.out_dtype);
    const double fraction = fraction_of_bound({e.value, bound}, got, r.out_dtype);
    ++result->checked;
    if (fraction <= result->worst) continue;
    result->worst = fraction;
    if (fraction <= 1) continue;
    result->ok = false;
    result->what = absl::StrFormat(
        "batch %d row %d column %d is %.9g, but float64 gives %.9g; error %.3g times its bound", at.batch,
        at.row, j, got, e.value, fraction);
  }
}

// A token without uses has a sum of zero. With `compares_all`, such tokens are compared too.
CheckResult check_sums(const GroupedMatmulRequest& r, const GroupedMatmulData& data,
                       const std::vector<std::vector<Use>>& uses, bool compares_all, CheckResult result) {
  const int64_t columns = r.d_columns();
  std::vector<ExpectedElement> sums(static_cast<size_t>(r.m * columns));
  std::vector<char> is_compared(static_cast<size_t>(r.m), compares_all);
  for (size_t g = 0; g < uses.size(); ++g) {
    if (uses[g].empty()) continue;
    const std::vector<ExpectedElement> rows = expected_rows(r, data, static_cast<int64_t>(g), uses[g]);
    for (size_t i = 0; i < uses[g].size(); ++i) {
      const Use& use = uses[g][i];
      is_compared[static_cast<size_t>(use.token)] = 1;
      const double weight = data.weights[static_cast<size_t>(use.token * r.used + use.slot)];
      for (int64_t j = 0; j < columns; ++j) {
        const ExpectedElement& e = rows[i * static_cast<size_t>(columns) + static_cast<size_t>(j)];
        ExpectedElement& sum = sums[static_cast<size_t>(use.token * columns + j)];
        sum.value += weight * e.value;
        // The weight's product and each of the following additions round.
        sum.bound +=
            std::fabs(weight) * (e.bound + static_cast<double>(r.used + 1) * kEpsilon * std::fabs(e.value));
      }
    }
  }
  for (int64_t t = 0; t < r.m; ++t)
    if (is_compared[static_cast<size_t>(t)] != 0)
      check_row(r, data.d, {0, t}, sums.data() + t * columns, &result);
  return result;
}

CheckResult check_gated(const GroupedMatmulRequest& r, const GroupedMatmulData& data,
                        const std::vector<std::vector<Use>>& uses, CheckResult result) {
  for (size_t g = 0; g < uses.size(); ++g) {
    if (uses[g].empty()) continue;
    const std::vector<ExpectedElement> rows = expected_rows(r, data, static_cast<int64_t>(g), uses[g]);
    for (size_t i = 0; i < uses[g].size(); ++i)
      check_row(r, data.d, uses[g][i].d, rows.data() + i * static_cast<size_t>(r.d_columns()), &result);
  }
  return result;
}

}  // namespace

bool GroupedMatmulRequest::operator==(const GroupedMatmulRequest& o) const {
  const auto fields = [](const GroupedMatmulRequest& r) {
    return std::tie(r.grouping, r.m, r.n, r.k, r.groups, r.used, r.dtype, r.out_dtype, r.b_dtype, r.math,
                    r.trans_b, r.alpha, r.bias, r.activation, r.shared_rows, r.summed, r.gate, r.gate_layout,
                    r.packed, r.a_format, r.b_format, r.even);
  };
  return OpRequest::operator==(o) && fields(*this) == fields(o);
}

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
  specs.d = matrix_spec(batch(counts                 ? r.groups
                              : indexed && !r.summed ? r.used
                                                     : 1),
                        r.out_dtype, r.m, r.d_columns());
  common.padding = 0;  // of weights and the bias, whose groups follow each other
  specs.b = matrix_spec(batch(r.groups), r.weight_dtype(), r.k, r.n);
  specs.b.transposed = r.trans_b;
  if (r.bias) specs.bias = matrix_spec(batch(r.groups), member_request(r, 1).out_dtype, 1, r.n);
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

std::vector<int32_t> even_routing(const GroupedMatmulRequest& r, Normal* random) {
  const auto groups = static_cast<size_t>(r.groups);
  const bool indexed = r.grouping == LATHE_GROUPING_INDEXED;
  std::vector<int32_t> routing;
  if (r.grouping == LATHE_GROUPING_OFFSETS) {
    for (int64_t g = 0; g <= r.groups; ++g) routing.push_back(static_cast<int32_t>(r.m * g / r.groups));
    return routing;
  }
  if (r.grouping == LATHE_GROUPING_COUNTS) return std::vector<int32_t>(groups, static_cast<int32_t>(r.m));
  // Each token, or row, takes the first groups of the list after it was shuffled.
  std::vector<int32_t> order(groups);
  std::iota(order.begin(), order.end(), 0);
  for (int64_t token = 0; token < r.m; ++token)
    for (int64_t slot = 0; slot < (indexed ? r.used : 1); ++slot) {
      const auto at = static_cast<size_t>(slot % r.groups);
      std::swap(order[at], order[at + static_cast<size_t>(random->below(r.groups - slot % r.groups))]);
      routing.push_back(order[at]);
    }
  if (!indexed) std::sort(routing.begin(), routing.end());
  return routing;
}

RoutingUse use_of(const GroupedMatmulRequest& r, const std::vector<int32_t>& routing) {
  RoutingUse use;
  for (const std::vector<Use>& of_group : uses_of_groups(r, routing)) {
    use.rows += static_cast<int64_t>(of_group.size());
    use.groups += of_group.empty() ? 0 : 1;
  }
  return use;
}

CheckResult check_grouped_matmul(const GroupedMatmulRequest& r, const GroupedMatmulData& data,
                                 Normal* random) {
  std::vector<std::vector<Use>> uses = uses_of_groups(r, data.routing);
  const int64_t rows = count_of(uses);
  CheckResult result;
  if (r.fill != Fill::kSpecial) result.what = check_written(r, data, r.summed ? r.m : rows);
  if (!result.what.empty()) return result;
  result.ok = true;
  result.total = data.d.elements();
  keep_some(r, random, &uses);
  const bool compares_all = count_of(uses) == rows;
  result.what = compares_all ? "every element" : absl::StrFormat("%d of %d rows", count_of(uses), rows);
  if (r.summed) return check_sums(r, data, uses, compares_all, result);
  if (r.gate != LATHE_GATE_NONE) return check_gated(r, data, uses, result);
  for (size_t g = 0; g < uses.size(); ++g) {
    if (uses[g].empty()) continue;
    const MatmulRequest member = member_request(r, static_cast<int64_t>(uses[g].size()));
    MatmulData of_group = member_data(member, data, static_cast<int64_t>(g), uses[g], {0, 1, r.n});
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
