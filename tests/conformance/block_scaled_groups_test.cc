// Grouped products with block scales: experts with scales of their own, and rows of every grouping.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "block_scaled_case.h"

namespace lathe::conformance {
namespace {

using reference::ScaledElements;
using reference::ScaledMatrix;
using reference::ScaledSpec;

class ScaledGroups : public BlockScaled {};

TEST_F(ScaledGroups, EveryGroupingByEveryFormat) {
  constexpr int64_t kGroups = 5, kN = 34, kRows = 12;
  const int64_t depth = quick_or(128, 256);
  for (const ScaledElements& f : reference::scaled_elements())
    for (int i = 0; i < 8; ++i) {
      if (leaves_out({kRows, kN, depth})) continue;
      const auto grouping = static_cast<lathe_grouping>(i % 4);
      const bool counts = grouping == LATHE_GROUPING_COUNTS, indexed = grouping == LATHE_GROUPING_INDEXED;
      const bool scaled_a = i < 6, interleaved = i == 5, gated = i >= 4 && !counts;
      ScaledSpec of_b;
      of_b.format = &f;
      of_b.lines = kN, of_b.k = depth, of_b.batch = kGroups;
      of_b.lines_each = f.takes_tall ? one_of({1, 128}) : 1;
      of_b.global = random_.below(2) != 0;
      do of_b.layout = kLayouts[random_.below(4)];
      while (!has_layout(f, of_b.layout, of_b.lines_each));
      const ScaledMatrix b(of_b, &random_);
      const int64_t used = indexed ? 3 : 1, matrices = counts ? kGroups : indexed ? used : 1;
      ScaledSpec of_a;
      of_a.format = &f;
      of_a.lines = kRows, of_a.k = depth, of_a.batch = matrices;
      of_a.global = random_.below(2) != 0;
      do of_a.layout = kLayouts[random_.below(4)];
      while (!has_layout(f, of_a.layout, 1));
      const ScaledMatrix a(of_a, &random_);
      Floats plain(LATHE_BF16, matrices * kRows, depth, &random_);
      const int64_t columns = gated ? kN / 2 : kN;
      Floats d(LATHE_F32, matrices * kRows, columns, nullptr);

      lathe_grouped_matmul_desc desc = LATHE_GROUPED_MATMUL_DESC_INIT;
      desc.grouping = grouping;
      desc.m = kRows, desc.n = kN, desc.k = depth, desc.groups = kGroups, desc.used = used;
      std::vector<int32_t> routing;
      if (grouping == LATHE_GROUPING_OFFSETS) routing = {0, 2, 2, 7, 8, 12};
      if (grouping == LATHE_GROUPING_ROW_IDS) routing = {4, -1, 0, 0, 1, 4, 2, 3, -1, 0, 1, 1};
      if (counts) routing = {0, 12, 1, 5, 2};
      for (int64_t s = 0; indexed && s < kRows * used; ++s)
        routing.push_back(static_cast<int32_t>(random_.below(kGroups)));
      desc.routing = routing.data();
      lathe_scale scale_a = a.scale(), scale_b = b.scale();
      desc.b = b.operand(true);
      desc.b.scale = &scale_b;
      if (scaled_a) {
        desc.a = a.operand(false);
        desc.a.scale = &scale_a;
      } else {
        desc.a = plain.operand(kRows);
      }
      desc.d = d.operand(kRows);
      desc.gate = gated ? LATHE_GATE_RELU : LATHE_GATE_NONE;
      if (interleaved) desc.gate_layout = LATHE_GATE_INTERLEAVED;
      SCOPED_TRACE(
          absl::StrCat(f.name, " grouping ", i % 4, " case ", i, " layouts ", of_a.layout, " ", of_b.layout));
      ScaledCopies copies(device());
      copies.add(a);
      copies.add(b);
      for (std::vector<uint8_t>* bytes : {&plain.bytes, &d.bytes}) copies.add(*bytes);
      copies.add(routing);
      desc = copies.moved(desc);
      ASSERT_LATHE_OK(lathe_grouped_matmul(device(), nullptr, &desc));
      copies.fetch();

      const auto group_of = [&](int64_t matrix, int64_t row) -> int64_t {
        if (counts) return row < routing[static_cast<size_t>(matrix)] ? matrix : -1;
        if (indexed) return routing[static_cast<size_t>(row * used + matrix)];
        if (grouping == LATHE_GROUPING_ROW_IDS) return routing[static_cast<size_t>(row)];
        int64_t group = 0;
        while (routing[static_cast<size_t>(group + 1)] <= row) ++group;
        return group;
      };
      for (int64_t matrix = 0; matrix < matrices; ++matrix)
        for (int64_t row = 0; row < kRows; ++row) {
          const int64_t group = group_of(matrix, row);
          const auto column = [&](int64_t j) {
            const Expected e = dot(
                depth,
                [&](int64_t k) {
                  return scaled_a ? a.at(matrix, row, k) : plain.at(matrix * kRows + row, k);
                },
                [&](int64_t k) { return b.at(group, j, k); });
            const double factor = b.global_of(group) * (scaled_a ? a.global() : 1);
            return Expected{e.value * factor, e.magnitude * factor};
          };
          for (int64_t j = 0; j < columns; ++j) {
            const double got = d.at(matrix * kRows + row, j);
            if (group < 0) {
              ASSERT_TRUE(std::isnan(got)) << "row " << row << " has no group, but was written";
              continue;
            }
            Expected e = column(gated && interleaved ? 2 * j : j);
            if (gated) {
              const Expected u = column(interleaved ? 2 * j + 1 : columns + j);
              e.magnitude = e.magnitude * u.magnitude;
              e.value = std::max(e.value, 0.0) * u.value;
            }
            ASSERT_TRUE(is_near(got, e, depth, LATHE_F32))
                << matrix << ' ' << row << ' ' << j << ": " << got << ", not " << e.value;
          }
        }
    }
}

}  // namespace
}  // namespace lathe::conformance
