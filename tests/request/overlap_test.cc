#include "request/overlap.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace lathe {
namespace {

Region region(uintptr_t base, int64_t width, int64_t lines, int64_t pitch, int64_t count = 1,
              int64_t stride = 0) {
  Region r{base, width, lines, pitch, count, stride, 0};
  EXPECT_TRUE(measure(&r));
  return r;
}

// All bytes of a region, byte by byte. *twice: two lines share a byte.
std::set<uintptr_t> bytes_of(const Region& r, bool* twice) {
  std::set<uintptr_t> bytes;
  *twice = false;
  for (int64_t c = 0; c < r.count; ++c)
    for (int64_t l = 0; l < r.lines; ++l)
      for (int64_t b = 0; b < r.width; ++b)
        *twice |= !bytes.insert(r.base + static_cast<uintptr_t>(c * r.stride + l * r.pitch + b)).second;
  return bytes;
}

TEST(Overlap, MeasuresAndRefusesOverflow) {
  EXPECT_EQ(region(0, 12, 5, 100).bytes, 412);
  EXPECT_EQ(region(0, 12, 5, 100, 3, 1000).bytes, 2412);
  EXPECT_EQ(region(0, 12, 0, 100).bytes, 0);
  EXPECT_EQ(region(0, 12, 5, 100, 0, 1000).bytes, 0);
  Region lines{0, 8, int64_t{1} << 31, int64_t{1} << 33, 1, 0, 0};
  EXPECT_FALSE(measure(&lines));
  Region matrices{0, 8, 2, 8, int64_t{1} << 31, int64_t{1} << 33, 0};
  EXPECT_FALSE(measure(&matrices));
  Region sum{0, INT64_MAX, 2, 8, 1, 0, 0};
  EXPECT_FALSE(measure(&sum));
}

TEST(Overlap, KnowsColumnSlicesOfOneBuffer) {
  // A buffer of 10 lines of 100 bytes: [0, 40) and [40, 100) of each line.
  const Region left = region(1000, 40, 10, 100), right = region(1040, 60, 10, 100);
  EXPECT_TRUE(known_disjoint(left, right));
  EXPECT_TRUE(known_disjoint(right, left));
  EXPECT_FALSE(known_disjoint(left, region(1039, 60, 10, 100)));
  EXPECT_FALSE(known_disjoint(left, region(1040, 61, 10, 100))) << "it reaches into the next line";
  EXPECT_FALSE(known_disjoint(left, region(1040, 60, 10, 101)))
      << "regions with different pitches are not analysed";
  EXPECT_TRUE(known_disjoint(left, region(2000, 60, 10, 101))) << "the whole ranges do not overlap";
}

// Matrices with one line each count as lines a stride apart; their pitch has no effect.
TEST(Overlap, KnowsSlicesOfOneLineEach) {
  const Region left = region(1000, 40, 1, 7, 10, 100), right = region(1040, 60, 1, 48, 10, 100);
  EXPECT_TRUE(known_disjoint(left, right));
  EXPECT_FALSE(known_disjoint(left, region(1039, 60, 1, 48, 10, 100)));
  EXPECT_FALSE(known_disjoint(left, region(1040, 61, 1, 48, 10, 100)));
  EXPECT_TRUE(known_disjoint(left, region(1040, 60, 10, 100))) << "lines of one matrix";
  EXPECT_TRUE(known_disjoint(left, region(1340, 60, 1, 0))) << "one line";
  EXPECT_TRUE(known_disjoint(left, region(1040, 10, 1, 16, 10, 50))) << "two in each gap";
  EXPECT_FALSE(known_disjoint(left, region(1040, 11, 1, 16, 10, 50)));
}

// If a function says that two regions do not overlap, or one does not overlap itself, that is true.
TEST(Overlap, NeverClaimsTooMuch) {
  std::mt19937 random(20240601);
  const auto pick = [&](int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
  };
  int disjoint = 0, clean = 0;
  for (int i = 0; i < 20000; ++i) {
    const int64_t pitch = pick(1, 24);
    const auto any = [&] {
      const int64_t own_pitch = pick(0, 3) == 0 ? pick(1, 24) : pitch;
      const int64_t stride = pick(0, 1) == 0 ? own_pitch * pick(0, 6) : pick(0, 60);
      return region(static_cast<uintptr_t>(1000 + pick(0, 60)), pick(0, 12), pick(0, 4), own_pitch,
                    pick(0, 3), stride);
    };
    const Region a = any(), b = any();
    bool a_twice = false, b_twice = false;
    const std::set<uintptr_t> a_bytes = bytes_of(a, &a_twice), b_bytes = bytes_of(b, &b_twice);
    bool meet = false;
    for (uintptr_t byte : a_bytes) meet |= b_bytes.count(byte) != 0;
    if (known_disjoint(a, b)) {
      ++disjoint;
      ASSERT_FALSE(meet) << i;
    }
    if (disjoint_within(a)) {
      ++clean;
      ASSERT_FALSE(a_twice) << i;
    }
  }
  EXPECT_GT(disjoint, 1000);
  EXPECT_GT(clean, 1000);
}

TEST(Overlap, OutputsMayBeStackedOrSideBySide) {
  EXPECT_TRUE(disjoint_within(region(0, 40, 10, 100)));
  EXPECT_FALSE(disjoint_within(region(0, 101, 10, 100)));
  EXPECT_TRUE(disjoint_within(region(0, 40, 10, 100, 3, 940)));
  EXPECT_FALSE(disjoint_within(region(0, 40, 10, 100, 3, 939)));
  EXPECT_FALSE(disjoint_within(region(0, 40, 10, 100, 2, 0)));
  EXPECT_TRUE(disjoint_within(region(0, 30, 10, 100, 3, 35))) << "3 heads of 30 in lines of 100";
  EXPECT_FALSE(disjoint_within(region(0, 30, 10, 99, 3, 35)));
  EXPECT_FALSE(disjoint_within(region(0, 36, 10, 200, 3, 35)));
}

}  // namespace
}  // namespace lathe
