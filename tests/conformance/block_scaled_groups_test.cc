// Grouped products with block scales: experts with scales of their own, and rows of every grouping.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "block_scaled_product.h"
#include "candidates.h"

namespace lathe::conformance {
namespace {

using reference::ScaledElements;
using reference::ScaledMatrix;
using reference::ScaledSpec;

struct GroupsCase {
  const ScaledElements* a = nullptr;  // null: bf16 without scales
  const ScaledElements* b = nullptr;
  lathe_grouping grouping = LATHE_GROUPING_OFFSETS;
  int64_t groups = 1, rows = 0, n = 0, k = 0, used = 1;  // rows: m
  std::vector<int32_t> routing;
  lathe_gate gate = LATHE_GATE_NONE;
  bool interleaved = false;
  lathe_dtype out = LATHE_F32;

  bool counts() const { return grouping == LATHE_GROUPING_COUNTS; }
  int64_t matrices() const { return counts() ? groups : grouping == LATHE_GROUPING_INDEXED ? used : 1; }
  int64_t columns() const { return gate == LATHE_GATE_NONE ? n : n / 2; }
  int64_t group_of(int64_t matrix, int64_t row) const {
    const auto at = [&](int64_t i) { return routing[static_cast<size_t>(i)]; };
    if (counts()) return row < at(matrix) ? matrix : -1;
    if (grouping == LATHE_GROUPING_INDEXED) return at(row * used + matrix);
    if (grouping == LATHE_GROUPING_ROW_IDS) return at(row);
    if (row < at(0) || row >= at(groups)) return -1;
    int64_t group = 0;
    while (at(group + 1) <= row) ++group;
    return group;
  }
};

// A case with random operands and scales in random layouts.
class GroupsProduct {
 public:
  GroupsProduct(const GroupsCase& c, reference::Normal* random)
      : c_(c),
        b_(spec_of(c.b, c.n, c.k, c.groups, /*of_b=*/true, random), random),
        plain_(LATHE_BF16, c.matrices() * c.rows, c.k, random),
        d_(c.out, c.matrices() * c.rows, c.columns(), nullptr) {
    desc.grouping = c.grouping;
    desc.m = c.rows, desc.n = c.n, desc.k = c.k, desc.groups = c.groups, desc.used = c.used;
    desc.routing = c_.routing.data();
    scale_b_ = b_.scale();
    desc.b = b_.operand(true);
    desc.b.scale = &scale_b_;
    if (c.a != nullptr) {
      a_ = ScaledMatrix(spec_of(c.a, c.rows, c.k, c.matrices(), /*of_b=*/false, random), random);
      scale_a_ = a_.scale();
      desc.a = a_.operand(false);
      desc.a.scale = &scale_a_;
    } else {
      desc.a = plain_.operand(c.rows);
    }
    desc.d = d_.operand(c.rows);
    desc.gate = c.gate;
    if (c.interleaved) desc.gate_layout = LATHE_GATE_INTERLEAVED;
  }

  lathe_status run(lathe_device* device) {
    const Floats blank(c_.out, c_.matrices() * c_.rows, c_.columns(), nullptr);
    std::copy(blank.bytes.begin(), blank.bytes.end(),
              d_.bytes.begin());  // in place: copies are found by address
    ScaledCopies copies(device);
    if (c_.a != nullptr) copies.add(a_);
    copies.add(b_);
    for (std::vector<uint8_t>* bytes : {&plain_.bytes, &d_.bytes}) copies.add(*bytes);
    copies.add(c_.routing);
    const lathe_grouped_matmul_desc moved = copies.moved(desc);
    const lathe_status status = lathe_grouped_matmul(device, nullptr, &moved);
    copies.fetch();
    return status;
  }
  // Compares every `step`-th column of D. Rows without a group must still be NaN.
  std::string check(int64_t step = 1) const {
    for (int64_t matrix = 0; matrix < c_.matrices(); ++matrix)
      for (int64_t row = 0; row < c_.rows; ++row)
        for (int64_t j = row % step; j < c_.columns(); j += step) {
          const double got = d_.at(matrix * c_.rows + row, j);
          const int64_t group = c_.group_of(matrix, row);
          const std::string place = absl::StrCat(matrix, " ", row, " ", j, ": ");
          if (group < 0) {
            if (!std::isnan(got)) return absl::StrCat(place, "has no group, but was written");
            continue;
          }
          const Expected e = expected(group, matrix, row, j);
          if (!is_near(got, e, c_.k, c_.out)) return absl::StrCat(place, got, ", not ", e.value);
        }
    return "";
  }

  lathe_grouped_matmul_desc desc = LATHE_GROUPED_MATMUL_DESC_INIT;

 private:
  static ScaledSpec spec_of(const ScaledElements* f, int64_t lines, int64_t k, int64_t batch, bool of_b,
                            reference::Normal* random) {
    ScaledSpec spec;
    spec.format = f;
    spec.lines = lines, spec.k = k, spec.batch = batch;
    spec.lines_each = of_b && f->takes_tall && random->below(2) != 0 ? 128 : 1;
    spec.global = random->below(2) != 0;
    do spec.layout = kLayouts[random->below(4)];
    while (!has_layout(*f, spec.layout, spec.lines_each));
    return spec;
  }
  Expected expected(int64_t group, int64_t matrix, int64_t row, int64_t j) const {
    const auto column = [&](int64_t at) {
      const Expected e = dot(
          c_.k,
          [&](int64_t k) {
            return c_.a != nullptr ? a_.at(matrix, row, k) : plain_.at(matrix * c_.rows + row, k);
          },
          [&](int64_t k) { return b_.at(group, at, k); });
      const double factor = b_.global_of(group) * (c_.a != nullptr ? a_.global() : 1);
      return Expected{e.value * factor, e.magnitude * factor};
    };
    if (c_.gate == LATHE_GATE_NONE) return column(j);
    Expected e = column(c_.interleaved ? 2 * j : j);  // the gate is relu
    const Expected u = column(c_.interleaved ? 2 * j + 1 : c_.columns() + j);
    e.magnitude = e.magnitude * u.magnitude;
    e.value = std::max(e.value, 0.0) * u.value;
    return e;
  }

  GroupsCase c_;
  ScaledMatrix a_, b_;
  Floats plain_, d_;
  lathe_scale scale_a_ = LATHE_SCALE_INIT, scale_b_ = LATHE_SCALE_INIT;
};

class ScaledGroups : public BlockScaled {
 protected:
  std::vector<int32_t> random_indices(int64_t count, int64_t groups) {
    std::vector<int32_t> indices;
    for (int64_t s = 0; s < count; ++s) indices.push_back(static_cast<int32_t>(random_.below(groups)));
    return indices;
  }
};

TEST_F(ScaledGroups, EveryGroupingByEveryFormat) {
  for (const ScaledElements& f : reference::scaled_elements())
    for (int i = 0; i < 8; ++i) {
      GroupsCase c;
      c.groups = 5, c.n = 34, c.rows = 12, c.k = quick_or(128, 256);
      if (leaves_out({c.rows, c.n, c.k})) continue;
      c.grouping = static_cast<lathe_grouping>(i % 4);
      c.b = &f;
      if (i < 6) c.a = &f;
      c.interleaved = i == 5;
      if (i >= 4 && !c.counts()) c.gate = LATHE_GATE_RELU;
      if (c.grouping == LATHE_GROUPING_OFFSETS) c.routing = {0, 2, 2, 7, 8, 12};
      if (c.grouping == LATHE_GROUPING_ROW_IDS) c.routing = {4, -1, 0, 0, 1, 4, 2, 3, -1, 0, 1, 1};
      if (c.counts()) c.routing = {0, 12, 1, 5, 2};
      if (c.grouping == LATHE_GROUPING_INDEXED)
        c.used = 3, c.routing = random_indices(c.rows * c.used, c.groups);
      GroupsProduct product(c, &random_);
      SCOPED_TRACE(absl::StrCat(f.name, " grouping ", i % 4, " case ", i));
      ASSERT_LATHE_OK(product.run(device()));
      EXPECT_EQ(product.check(), "");
    }
}

// The tensor cores of Hopper multiply fp8, those of Blackwell apply the scales: every tile, with groups that end inside
// a tile, an empty group, and N and K that end inside a tile.
TEST_F(ScaledGroups, EveryTileOfTensorCores) {
  constexpr std::pair<const char*, const char*> kPairs[] = {
      {"f8_128", "f8_128"}, {"mxf8", "mxf8_e5m2"}, {"f8_128_e8m0", "f8_128_e8m0"},
      {"mxf8", "mxf4"},     {"mxf4", "mxf4"},      {"nvf4", "nvf4"}};
  if (is_cpu()) GTEST_SKIP() << "the CPU has none";
  int tiles = 0;
  for (const auto& [a, b] : kPairs)
    for (const bool few : {false, true})
      for (int grouping = 0; grouping < 4; ++grouping) {
        GroupsCase c;
        c.a = scaled_format(a), c.b = scaled_format(b);
        c.grouping = static_cast<lathe_grouping>(grouping);
        c.groups = 3, c.n = 328, c.k = c.a->takes_tall ? 384 : 416;
        c.rows = few ? 20 : 330;
        c.out = few ? LATHE_F32 : LATHE_BF16;
        if (c.grouping == LATHE_GROUPING_OFFSETS)
          c.routing = few ? std::vector<int32_t>{1, 8, 8, 19} : std::vector<int32_t>{3, 131, 131, 326};
        if (c.grouping == LATHE_GROUPING_ROW_IDS) {
          c.routing = random_indices(c.rows, c.groups);
          for (size_t i = 0; i < c.routing.size(); i += 5) c.routing[i] = -1;
        }
        if (c.counts()) {
          c.rows = few ? 9 : 140;
          c.routing = few ? std::vector<int32_t>{9, 0, 5} : std::vector<int32_t>{140, 0, 65};
        }
        if (c.grouping == LATHE_GROUPING_INDEXED)
          c.used = 2, c.rows /= 2, c.routing = random_indices(c.rows * c.used, c.groups);
        if (leaves_out({c.rows, c.n, c.k})) continue;
        GroupsProduct product(c, &random_);
        SCOPED_TRACE(absl::StrCat(a, " by ", b, " grouping ", grouping, few ? " few rows" : ""));
        const auto legal = legal_candidates(device(), product.desc);
        for (size_t i = 0; i < legal.size() && !HasFailure(); ++i) {
          const auto& kernel = legal[i]["config"]["kernel"];
          if (kernel != "wgmma" && kernel != "tcgen05") continue;
          if (is_quick() && random_.below(kernel == "wgmma" ? 10 : 3) != 0) continue;
          lathe_tuning tuning = LATHE_TUNING_INIT;
          tuning.candidate = static_cast<int32_t>(i + 1);
          product.desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
          SCOPED_TRACE(legal[i]["config"].dump());
          ASSERT_LATHE_OK(product.run(device()));
          EXPECT_EQ(product.check(/*step=*/17), "");
          ++tiles;
        }
        product.desc.next = nullptr;
      }
  if (tiles == 0) GTEST_SKIP() << "no tensor cores that multiply fp8 and fp4 with scales";
}

}  // namespace
}  // namespace lathe::conformance
