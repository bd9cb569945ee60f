// Grouped products by Hopper's warpgroup instructions, whose tiles of A come in whole boxes or are gathered: every
// tile, with groups that end inside a tile.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "candidates.h"
#include "grouped_case.h"

namespace lathe::conformance {
namespace {

class GroupedTiles : public GroupedTest {
 protected:
  GroupedTiles() : GroupedTest(79) {}
  // The request runs with every candidate of "wgmma", or with some of them. `routing` may be empty: a random one.
  void expect_every_tile(const GroupedMatmulRequest& r, const std::vector<int32_t>& routing = {});
  int tiles_ = 0;
};

// Whether a row of A has no group.
bool is_unused(const GroupedMatmulRequest& r, const std::vector<int32_t>& routing, int64_t matrix,
               int64_t row) {
  switch (r.grouping) {
    case LATHE_GROUPING_OFFSETS: return row < routing.front() || row >= routing.back();
    case LATHE_GROUPING_ROW_IDS: return routing[static_cast<size_t>(row)] < 0;
    case LATHE_GROUPING_COUNTS: return row >= routing[static_cast<size_t>(matrix)];
    default: return false;
  }
}

// Rows of A without a group become NaN. They may be copied and multiplied, but must not reach other rows.
void poison_unused_rows(const GroupedMatmulRequest& r, reference::GroupedMatmulData* data) {
  if (r.dtype == LATHE_I8) return;
  const reference::OperandSpec& spec = data->a.spec();
  for (int64_t matrix = 0; matrix < spec.matrices(); ++matrix)
    for (int64_t row = 0; row < spec.rows; ++row)
      for (int64_t k = 0; k < spec.columns && is_unused(r, data->routing, matrix, row); ++k)
        data->a.set(matrix, row, k, NAN);
}

// D in f32 with aligned rows, whatever N is.
class WideRows {
 public:
  explicit WideRows(const reference::OperandSpec& spec) : spec_(spec), pitch_((spec.columns + 3) / 4 * 4) {
    const float unwritten = from_bits(kUnwritten);
    memory.assign(static_cast<size_t>(spec.matrices() * spec.rows * pitch_), unwritten);
  }
  void place(lathe_operand* d) {
    d->data = memory.data();
    d->leading_dimension = pitch_;
    d->batch_stride = spec_.rows * pitch_;
  }
  // Copies what was written.
  void copy_to(reference::Operand* d) const {
    for (int64_t matrix = 0; matrix < spec_.matrices(); ++matrix)
      for (int64_t row = 0; row < spec_.rows; ++row)
        for (int64_t j = 0; j < spec_.columns; ++j) {
          const float value = memory[static_cast<size_t>((matrix * spec_.rows + row) * pitch_ + j)];
          uint32_t bits = 0;
          std::memcpy(&bits, &value, sizeof bits);
          if (bits != kUnwritten) d->set(matrix, row, j, static_cast<double>(value));
        }
  }
  std::vector<float> memory;

 private:
  static constexpr uint32_t kUnwritten = 0x7fc0dead;
  static float from_bits(uint32_t bits) {
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  reference::OperandSpec spec_;
  int64_t pitch_;
};

void GroupedTiles::expect_every_tile(const GroupedMatmulRequest& r, const std::vector<int32_t>& routing) {
  if (HasFailure() || leaves_out({r.m, r.n, r.k})) return;
  SCOPED_TRACE(describe(r));
  Grouped grouped(r, &random_);
  if (!routing.empty()) {
    grouped.data().routing = routing;
    grouped.desc().routing = grouped.data().routing.data();
  }
  poison_unused_rows(r, &grouped.data());
  WideRows wide(grouped.data().d.spec());
  const bool is_wide = r.out_dtype == LATHE_F32;
  if (is_wide) wide.place(&grouped.desc().d);
  const auto legal = legal_candidates(device(), grouped.desc());
  const int64_t one_in = is_quick() ? 13 : 3;
  for (size_t i = 0; i < legal.size() && !HasFailure(); ++i) {
    if (legal[i]["config"]["kernel"] != "wgmma" || random_.below(one_in) != 0) continue;
    lathe_tuning tuning = LATHE_TUNING_INIT;
    tuning.candidate = static_cast<int32_t>(i + 1);
    grouped.desc().next = reinterpret_cast<const lathe_chain*>(&tuning);
    SCOPED_TRACE(legal[i]["config"].dump());
    grouped.data().d = reference::Operand(grouped.data().d.spec());
    if (is_wide) {
      wide = WideRows(grouped.data().d.spec());
      wide.place(&grouped.desc().d);
      ASSERT_LATHE_OK(grouped.run_as(device(), grouped.desc(), &wide.memory));
      wide.copy_to(&grouped.data().d);
    } else {
      grouped.desc().d = reference::describe(grouped.data().d.spec(),
                                             grouped.data().d.first_at(grouped.data().d.image().data()));
      ASSERT_LATHE_OK(grouped.run(device()));
    }
    const reference::CheckResult result = grouped.check(&random_);
    EXPECT_TRUE(result.ok) << result.what;
    ++tiles_;
  }
}

TEST_F(GroupedTiles, EveryTileWithRandomRouting) {
  if (is_cpu()) GTEST_SKIP() << "the CPU has none";
  constexpr lathe_dtype kInputs[] = {LATHE_BF16, LATHE_F16, LATHE_I8, LATHE_F8_E4M3};
  for (int i = 0; i < quick_or(24, 64); ++i) {
    GroupedMatmulRequest r;
    r.grouping = kGroupings[i % 4];
    r.dtype = kInputs[i / 4 % 4];
    const bool bytes = r.dtype == LATHE_I8;
    r.out_dtype = bytes ? LATHE_F32 : random_.below(2) != 0 ? LATHE_BF16 : LATHE_F32;
    r.groups = one_of({1, 3, 7});
    const bool few = random_.below(2) != 0;
    r.m = few ? one_of({5, 40}) : one_of({200, 330});
    if (r.grouping == LATHE_GROUPING_COUNTS) r.m = few ? 11 : 140;
    r.n = one_of({24, 160, 328});
    r.k = one_of({16, 96, 208, 400});
    // Rows of D are apart, so that they are aligned. Those of Lathe's own memory are not.
    if (random_.below(3) == 0) r.n = 330, r.out_dtype = LATHE_F32;
    if (r.grouping == LATHE_GROUPING_INDEXED) {
      r.used = one_of({1, 3});
      r.shared_rows = random_.below(2) != 0;
      r.summed = !bytes && random_.below(2) != 0;
    }
    r.bias = !bytes && random_.below(2) != 0;
    if (!bytes && random_.below(3) == 0) r.gate = LATHE_GATE_SILU;
    if (r.gate != LATHE_GATE_NONE && random_.below(2) != 0) r.gate_layout = LATHE_GATE_INTERLEAVED;
    r.fill = r.gate == LATHE_GATE_NONE ? reference::Fill::kIntegers : reference::Fill::kNormal;
    expect_every_tile(r);
  }
  if (tiles_ == 0) GTEST_SKIP() << "no warpgroup instructions";
}

// Empty groups, all rows in one group, a row for each group, and groups that end with a tile or one row after it. The
// last tile of the last group goes beyond A.
TEST_F(GroupedTiles, EveryTileWithGroupsOfEverySize) {
  if (is_cpu()) GTEST_SKIP() << "the CPU has none";
  const std::vector<int32_t> counts[] = {{0, 300, 0, 0},   {0, 0, 0, 0},     {1, 1, 1, 1},
                                         {128, 64, 65, 0}, {127, 1, 0, 129}, {0, 0, 0, 300}};
  for (const std::vector<int32_t>& of_groups : counts)
    for (const lathe_grouping grouping :
         {LATHE_GROUPING_OFFSETS, LATHE_GROUPING_ROW_IDS, LATHE_GROUPING_COUNTS}) {
      GroupedMatmulRequest r;
      r.grouping = grouping;
      r.dtype = r.out_dtype = LATHE_BF16;
      r.m = grouping == LATHE_GROUPING_COUNTS ? 300 : 310, r.n = 136, r.k = 72, r.groups = 4;
      std::vector<int32_t> routing = of_groups;
      if (grouping == LATHE_GROUPING_OFFSETS) {
        routing = {5};  // the rows before have no group
        for (int32_t count : of_groups) routing.push_back(routing.back() + count);
      } else if (grouping == LATHE_GROUPING_ROW_IDS) {
        routing.assign(5, -1);
        for (int32_t g = 0; g < 4; ++g)
          routing.insert(routing.end(), static_cast<size_t>(of_groups[static_cast<size_t>(g)]), g);
        routing.resize(static_cast<size_t>(r.m), -1);
      }
      expect_every_tile(r, routing);
    }
  if (tiles_ == 0) GTEST_SKIP() << "no warpgroup instructions";
}

}  // namespace
}  // namespace lathe::conformance
