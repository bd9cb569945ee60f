// Tests the suite itself: its covering arrays, its guarded memory, and its checks against deliberately wrong results.
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "argmax_case.h"
#include "device.h"
#include "matmul_case.h"
#include "pairwise.h"

namespace lathe::conformance {
namespace {

TEST(Pairwise, CoversEveryPairOfLevels) {
  Random random = random_stream(11);
  const std::vector<int> levels = {3, 4, 2, 5};
  std::set<std::vector<size_t>> met;
  const auto rows = covering_array(levels, &random);
  for (const std::vector<int>& row : rows) {
    for (size_t f = 0; f < row.size(); ++f) {
      for (size_t g = f + 1; g < row.size(); ++g) {
        met.insert({f, static_cast<size_t>(row[f]), g, static_cast<size_t>(row[g])});
      }
    }
  }
  EXPECT_EQ(met.size(), 3u * 4 + 3 * 2 + 3 * 5 + 4 * 2 + 4 * 5 + 2 * 5);
  EXPECT_LT(rows.size(), 3u * 4 * 2 * 5 / 2);
}

TEST(GuardedMemory, NeighboursAreInaccessible) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const GuardedMemory end(10, Flush::kEnd), start(10, Flush::kStart);
  EXPECT_DEATH(end.data()[10] = 1, "");
  EXPECT_DEATH(start.data()[-1] = 1, "");
  GuardedMemory input(10, Flush::kEnd);
  input.write_protect();
  EXPECT_DEATH(input.data()[3] = 1, "");
}

// Guarded memory on a device that is not the CPU. The CPU's allocations stand in for it, because the host can write
// them.
TEST(GuardedMemory, DetectsWritesOnADevice) {
  lathe_context_options options = memory_only(1);
  lathe_context* context = nullptr;
  lathe_device* cpu = nullptr;
  ASSERT_LATHE_OK(lathe_context_create(&options, &context));
  ASSERT_LATHE_OK(lathe_device_open(context, "cpu", &cpu));
  GuardedMemory::use_device(cpu);
  for (Flush flush : {Flush::kStart, Flush::kEnd}) {
    for (size_t misalign : {0, 1, 5}) {
      GuardedMemory memory(100, flush, misalign);
      auto* device = static_cast<uint8_t*>(memory.address());
      EXPECT_NE(device, memory.data());
      const auto place = reinterpret_cast<uintptr_t>(device);
      EXPECT_EQ((flush == Flush::kStart ? place - misalign : place + 100 + misalign) % 64, 0u);
      std::memset(memory.data(), 3, 100);
      memory.publish();
      EXPECT_EQ(device[99], 3);
      EXPECT_TRUE(memory.unchanged() && memory.canaries_intact());
      device[5] = 4;
      EXPECT_FALSE(memory.unchanged());
      EXPECT_EQ(memory.data()[5], 4) << "fetched";
      EXPECT_TRUE(memory.canaries_intact());
      for (const int64_t beside : {-1, -4000, 100, 4000}) {
        const uint8_t kept = device[beside];
        EXPECT_EQ(kept, 0xFF);
        device[beside] = 0;
        memory.fetch();
        EXPECT_FALSE(memory.canaries_intact()) << beside;
        device[beside] = kept;
        memory.fetch();
        EXPECT_TRUE(memory.canaries_intact());
      }
    }
  }
  GuardedMemory::use_device(nullptr);
  lathe_device_close(cpu);
  lathe_context_destroy(context);
}

// Computes the right result with three loops and writes it to D.
void multiply_naively(const MatmulRequest& request) {
  const lathe_matmul_desc& d = *request.desc();
  const auto element = [](const lathe_operand& o, int64_t i, int64_t j) {
    const int64_t at =
        o.layout == LATHE_COLUMN_MAJOR ? j * o.leading_dimension + i : i * o.leading_dimension + j;
    return static_cast<float*>(o.data) + at;
  };
  for (int64_t i = 0; i < d.m; ++i) {
    for (int64_t j = 0; j < d.n; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < d.k; ++k) sum += *element(d.a, i, k) * *element(d.b, k, j);
      *element(d.d, i, j) = sum;
    }
  }
}

class Checks : public testing::Test {
 protected:
  static MatmulCase matmul(Values values) {
    MatmulCase c;
    c.m = 5;
    c.n = 9;
    c.k = 40;
    c.trans_a = true;
    c.padding = 2;
    c.values = values;
    return c;
  }
  Random random_ = random_stream(12);
};

TEST_F(Checks, AcceptARightProduct) {
  for (Values values : {Values::kNormal, Values::kSmallIntegers, Values::kSpecial}) {
    MatmulRequest request(matmul(values), &random_);
    request.reset_output();
    multiply_naively(request);
    EXPECT_TRUE(request.check());
  }
}

TEST_F(Checks, RefuseAWrongProduct) {
  MatmulRequest request(matmul(Values::kNormal), &random_);
  auto* d = static_cast<float*>(request.desc()->d.data);
  request.reset_output();
  EXPECT_FALSE(request.check()) << "nothing written";
  multiply_naively(request);
  const float right = d[3];
  d[3] += 1e-3f;
  EXPECT_FALSE(request.check()) << "one element off";
  d[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(request.check()) << "one element NaN";
  d[3] = right;
  EXPECT_TRUE(request.check());
  d[9] = 0;
  EXPECT_FALSE(request.check()) << "padding written";
}

TEST_F(Checks, IntegersAllowNoError) {
  MatmulRequest request(matmul(Values::kSmallIntegers), &random_);
  request.reset_output();
  multiply_naively(request);
  auto* d = static_cast<float*>(request.desc()->d.data);
  d[0] = std::nextafter(d[0], 1e9f);
  EXPECT_FALSE(request.check());
}

TEST_F(Checks, RefuseAWrongIndex) {
  ArgmaxCase c;
  c.n = 10;
  c.kind = Rows::kConstant;
  ArgmaxRequest request(c, &random_);
  auto* index = static_cast<int64_t*>(request.desc()->indices);
  *index = 0;
  EXPECT_TRUE(request.check());
  *index = 1;
  EXPECT_FALSE(request.check());
}

}  // namespace
}  // namespace lathe::conformance
