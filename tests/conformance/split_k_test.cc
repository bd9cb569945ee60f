// Split-K with a K that no factor divides evenly, and every candidate of the oracle.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>

#include "candidates.h"
#include "case_limits.h"
#include "device.h"
#include "matmul_case.h"
#include "nlohmann/json.hpp"

namespace lathe::conformance {
namespace {

constexpr lathe_dtype kFloats[] = {LATHE_F32, LATHE_F16, LATHE_BF16};

class SplitK : public ConformanceTest {
 protected:
  // Runs the request with each of the split factors.
  void expect_splits(MatmulRequest* request, const std::vector<int32_t>& factors) {
    for (int32_t factor : factors) {
      request->set_tuning(factor, 0);
      EXPECT_TRUE(request->run(device()));
    }
  }
  Random random_ = random_stream(2);
};

// 51234 = 2 * 3 * 8539: 76, 77 and 78 splits give uneven chunks.
TEST_F(SplitK, RaggedLongK) {
  MatmulCase c;
  c.m = quick_or(3, 123);
  c.n = quick_or(21, 456);
  c.k = capped(51234);
  MatmulRequest request(c, &random_);
  expect_splits(&request, {0, 1, 76, 77, 78});
}

TEST_F(SplitK, RaggedLongKExactly) {
  // With integers a lost, doubled or shifted chunk shows. A quarter of the shape suffices.
  for (lathe_dtype in : kFloats) {
    MatmulCase c;
    c.m = quick_or(2, 23);
    c.n = quick_or(9, 56);
    c.k = capped(51234);
    c.in = in;
    c.trans_a = in == LATHE_F16;
    c.trans_b = in != LATHE_F32;
    c.values = Values::kSmallIntegers;
    c.bias = LATHE_F32;
    MatmulRequest request(c, &random_);
    expect_splits(&request, {0, 76, 77, 78});
  }
}

// "outer" in blocks of K: weights larger than a quarter of L2 (of up to 4 MB), K a multiple of the block, one more and
// one less, columns that end within a vector, every register tile.
TEST_F(SplitK, BlocksOfOuterAreSummed) {
  SKIP_UNLESS_CPU("only the CPU has the kernel \"outer\"");
  int runs = 0;
  for (int64_t m : {1, 3, 5, 16, 17, 33, 64}) {
    MatmulCase c;
    c.m = m;
    c.n = random_.between(600, 1000);
    c.k = 64 * random_.between(8, 10) + random_.between(-1, 1);
    c.in = m == 5 ? LATHE_F16 : m == 33 ? LATHE_BF16 : LATHE_F32;
    if (m == 16) c.b = LATHE_F16;
    c.n *= c.in == LATHE_F32 && c.b == LATHE_DTYPE_NONE ? 1 : 2;
    c.trans_a = m == 17;
    c.bias = m % 2 ? LATHE_DTYPE_NONE : LATHE_F32;
    c.values = m == 3 ? Values::kSmallIntegers : Values::kNormal;
    c.flush = m % 2 ? Flush::kEnd : Flush::kStart;
    MatmulRequest request(c, &random_);
    const std::vector<nlohmann::json> legal = legal_candidates(device(), *request.desc());
    int blocked = 0;
    for (size_t rank = 0; rank < legal.size(); ++rank) {
      const nlohmann::json& config = legal[rank]["config"];
      if (config["kernel"] != "outer" || config["tile_k"] == 0) continue;
      SCOPED_TRACE(config.dump());
      request.set_tuning(0, static_cast<int32_t>(rank) + 1);
      EXPECT_TRUE(request.run(device()));
      ++blocked;
    }
    EXPECT_GT(blocked, 0) << c.describe();
    request.set_tuning(3, 0);
    EXPECT_TRUE(request.run(device()));
    runs += blocked;
  }
  std::printf("%d kernels\n", runs);
}

// "outer" for many rows, which reads its columns of B in place again for every pass: columns that end within a vector
// or within its first half, batches, and operands at the ends of their pages, since it prefetches what comes next.
TEST_F(SplitK, OuterReadsColumnsInPlace) {
  SKIP_UNLESS_CPU("only the CPU has the kernel \"outer\"");
  int runs = 0;
  for (int64_t m : {17, 33, 70, 150, 300}) {
    MatmulCase c;
    c.m = m;
    c.n = random_.between(1, 150);
    c.k = random_.between(1, 300);
    c.batch = m == 33 || m == 150 ? 3 : 1;
    c.in = m == 70 ? LATHE_BF16 : LATHE_F32;
    if (m == 17) c.b = LATHE_F16;
    c.trans_a = m == 150;
    c.bias = m % 2 ? LATHE_DTYPE_NONE : LATHE_F32;
    c.activation = m == 300 ? LATHE_ACTIVATION_GELU : LATHE_ACTIVATION_NONE;
    c.values = m == 33 ? Values::kSmallIntegers : Values::kNormal;
    c.flush = m % 2 ? Flush::kEnd : Flush::kStart;
    MatmulRequest request(c, &random_);
    const std::vector<nlohmann::json> legal = legal_candidates(device(), *request.desc());
    int in_place = 0;
    for (size_t rank = 0; rank < legal.size(); ++rank) {
      const nlohmann::json& config = legal[rank]["config"];
      if (config["kernel"] != "outer" || config["tile_k"] != 0 || (is_quick() && rank % 3 != 0)) continue;
      SCOPED_TRACE(config.dump());
      request.set_tuning(0, static_cast<int32_t>(rank) + 1);
      EXPECT_TRUE(request.run(device()));
      ++in_place;
    }
    EXPECT_GT(in_place, 0) << c.describe();
    runs += in_place;
  }
  std::printf("%d kernels\n", runs);
}

TEST_F(SplitK, FactorsAboveAndAroundK) {
  for (int64_t k : {1, 2, 3, 5, 16, 17, 63, 64, 65, 127, 1000}) {
    if (is_quick() && k % 2 == 0) continue;
    MatmulCase c;
    c.m = 7;
    c.n = 33;
    c.k = k;
    c.trans_b = k % 2;
    c.values = Values::kSmallIntegers;
    c.c_mode = CMode::kInPlace;
    c.beta = -1;
    c.bias = LATHE_F16;
    c.activation = LATHE_ACTIVATION_RELU;
    c.batch = 2;
    MatmulRequest request(c, &random_);
    expect_splits(&request,
                  {1, 2, 3, 4, 5, 7, 16, 64, static_cast<int32_t>(k), static_cast<int32_t>(k) + 1, 65535});
  }
}

TEST_F(SplitK, EpilogueRunsOnceAfterTheMerge) {
  for (lathe_dtype out : kFloats) {
    MatmulCase c;
    c.m = 18;
    c.n = 40;
    c.k = capped(600);
    c.out = out;
    c.alpha = -0.5f;
    c.beta = 2;
    c.c_mode = CMode::kSeparate;
    c.bias = out;
    c.activation = LATHE_ACTIVATION_GELU;
    c.residual_mode = ResidualMode::kInPlace;
    c.padding = 3;
    MatmulRequest request(c, &random_);
    expect_splits(&request, {0, 1, 2, 7, 19});
  }
}

class EveryCandidate : public ConformanceTest {
 protected:
  // The part of a candidate's config that shapes its inner loops: all except the block sizes.
  static std::string inner_loops(const nlohmann::json& candidate) {
    nlohmann::json config = candidate["config"];
    for (const char* block : {"tile_m", "tile_n", "tile_k"}) config.erase(block);
    return config.dump();
  }
  Random random_ = random_stream(3);
};

// Each layout with each form of inner loops, each on some shape with ragged edges.
TEST_F(EveryCandidate, IsRight) {
  const int64_t shapes[][3] = {{1, 67, 131},   {2, 33, 64},    {3, 16, 37},  {5, 129, 66},
                               {7, 35, 900},   {13, 31, 257},  {16, 64, 96}, {31, 65, 129},
                               {47, 130, 700}, {129, 65, 300}, {600, 37, 41}};
  int run = 0;
  for (int layout = 0; layout < 4; ++layout) {
    std::set<std::string> seen;
    for (const auto& shape : shapes) {
      if (is_quick() && shape[0] > 129) continue;
      MatmulCase c;
      c.m = shape[0];
      c.n = shape[1];
      c.k = capped(shape[2]);
      c.trans_a = layout & 1;
      c.trans_b = layout & 2;
      c.in = kFloats[random_.below(3)];
      c.out = kFloats[random_.below(3)];
      c.values = Values::kSmallIntegers;
      c.bias = LATHE_F32;
      c.activation = LATHE_ACTIVATION_RELU;
      c.padding = random_.below(2) * 3;
      c.flush = random_.below(2) ? Flush::kStart : Flush::kEnd;
      MatmulRequest request(c, &random_);
      const std::vector<nlohmann::json> all = legal_candidates(device(), *request.desc());
      const auto legal = static_cast<int32_t>(all.size());
      for (int32_t candidate = 1; candidate <= legal; ++candidate) {
        if (!seen.insert(inner_loops(all[static_cast<size_t>(candidate) - 1])).second) continue;
        // Each is a kernel to compile, so an emulated device runs a third of them.
        if (is_quick() && random_.below(3) != 0) continue;
        request.set_tuning(0, candidate);
        EXPECT_TRUE(request.run(device()));
        ++run;
      }
      request.set_tuning(0, legal + 1);
      EXPECT_EQ(lathe_matmul(device(), nullptr, request.desc()), LATHE_INVALID_ARGUMENT)
          << "candidate " << legal + 1 << " of " << legal << ": " << lathe_last_error();
    }
  }
  std::printf("%d candidates run\n", run);
}

// If K is a power of two, large tiles of the CPU kernel "dot" copy A. Chunks of that copy end within a vector.
TEST_F(EveryCandidate, IsRightForKOfPowersOfTwo) {
  if (!is_cpu()) GTEST_SKIP() << "only the CPU has the kernel \"dot\"";
  int run = 0;
  for (lathe_dtype in : kFloats) {
    for (int32_t splits : {0, 3}) {
      MatmulCase c;
      c.m = random_.between(9, 12);
      c.n = capped(51);
      c.k = capped(1024);
      c.trans_b = true;
      c.in = in;
      c.padding = random_.below(2) * 3;
      MatmulRequest request(c, &random_);
      request.set_tuning(splits, 0);
      const std::vector<nlohmann::json> all = legal_candidates(device(), *request.desc());
      for (size_t i = 0; i < all.size(); ++i) {
        const nlohmann::json& g = all[i]["config"];
        if (g["kernel"] != "dot" || g["tile_k"] != 0 || g["tile_n"] < 51) continue;
        request.set_tuning(splits, static_cast<int32_t>(i) + 1);
        EXPECT_TRUE(request.run(device()));
        ++run;
      }
    }
  }
  EXPECT_GT(run, 0);
}

// Block sizes and splits drawn at random from all candidates.
TEST_F(EveryCandidate, RoundsWithinTheBound) {
  for (int layout = 0; layout < 4; ++layout) {
    for (int64_t m : {9, 37, 200}) {
      if (is_quick() && m > 37) continue;
      MatmulCase c;
      c.m = m;
      c.n = capped(131);
      c.k = capped(1021);
      c.trans_a = layout & 1;
      c.trans_b = layout & 2;
      MatmulRequest request(c, &random_);
      const auto legal = static_cast<int64_t>(legal_candidates(device(), *request.desc()).size());
      for (int draw = 0; draw < 3; ++draw) {
        request.set_tuning(0, static_cast<int32_t>(random_.between(1, legal)));
        EXPECT_TRUE(request.run(device()));
      }
    }
  }
}

}  // namespace
}  // namespace lathe::conformance
