// Runs AVX2 kernels on a processor that also has AVX-512. A described device compiles them into a cache, and the CPU
// driver runs the cached kernels. The public API would never choose them on this machine, so the test uses internal
// parts.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "argmax_case.h"
#include "arguments.h"
#include "cache/cache.h"
#include "candidates.h"
#include "core/problem.h"
#include "device.h"
#include "matmul_case.h"
#include "packed_request.h"
#include "runtime/driver.h"
#include "tests/warm_weight.h"

#if defined(__x86_64__)

namespace lathe::conformance {
namespace {

constexpr lathe_dtype kFloats[] = {LATHE_F32, LATHE_F16, LATHE_BF16};

class Avx2 : public ConformanceTest {
 protected:
  static constexpr int64_t kMaxM = 70;

  void SetUp() override {
    ConformanceTest::SetUp();
    if (IsSkipped()) return;
    SKIP_UNLESS_CPU("this tests CPU kernels");
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
      GTEST_SKIP() << "this processor has no AVX2";
    lathe_context_options options = memory_only(2);
    options.cache_dir = directory_.path().c_str();
    ASSERT_LATHE_OK(lathe_context_create(&options, &context_));
    describe(LATHE_AVX2_FACTS);
    DriverOptions driver_options;
    driver_options.workers = 2;
    auto driver = open_driver("cpu", driver_options);
    ASSERT_TRUE(driver.ok()) << driver.status().ToString();
    driver_ = *std::move(driver);
  }
  void TearDown() override {
    lathe_device_close(laptop_);
    lathe_context_destroy(context_);
  }

  void describe(const std::string& facts) {
    lathe_device_close(laptop_);
    ASSERT_LATHE_OK(lathe_device_describe(context_, facts.c_str(), nullptr, &laptop_));
  }

  // Describes the device again with some facts changed.
  void describe_with(const std::vector<std::pair<std::string, double>>& changes) {
    std::ifstream in(LATHE_AVX2_FACTS);
    Json facts = Json::parse(in);
    for (const auto& [name, value] : changes)
      facts["facts"][name] = {{"value", value}, {"source", "as on a server"}};
    const std::string path = directory_.path() + "/facts.json";
    std::ofstream(path) << facts.dump();
    describe(path);
  }

  // Calls run(problem class, loaded kernel, number of splits it may be launched with) for every kernel in the cache,
  // then empties the cache.
  template <typename Run>
  void for_every_kernel(const Run& run) {
    CacheOptions options;
    options.directory = directory_.path();
    const std::unique_ptr<ArtifactCache> cache = make_cache(options);
    const CacheListing listing = cache->list().value();
    for (const CacheEntryInfo& entry : listing.entries) {
      const Json key = Json::parse(entry.key_text);
      ASSERT_EQ(key["target"]["features"].dump().find("avx512"), std::string::npos) << entry.key_text;
      fetches_.emplace(key["config"]["kernel"], key["config"].value("prefetch", 0));
      ukernels_.insert(key["config"]["ukernel"]["function"]);
      auto problem = problem_class_from_json(key["class"]);
      ASSERT_TRUE(problem.ok()) << problem.status().ToString();
      auto found = cache->get(key_from_text(entry.key_text));
      ASSERT_TRUE(found.ok()) << found.status().ToString();
      auto kernel = driver_->load(*found->artifact);
      ASSERT_TRUE(kernel.ok()) << kernel.status().ToString();
      run(*problem, **kernel, key["config"].value("split", 0) == 0 ? 1 : 3);
    }
    EXPECT_TRUE(cache->clear().ok());
  }

  // Runs every kernel of a weight's buckets up to kMaxM, at the smallest M of the bucket and a little above.
  void run_matmuls(MatmulCase c) {
    // With two forced splits the recipe includes the merge; the plan never chooses splits by itself here.
    for (int32_t split : {0, 2}) {
      c.split_k = split;
      MatmulRequest request(c, &random_);
      ASSERT_LATHE_OK(warm_weight(laptop_, *request.desc(), kMaxM));
      launch_matmuls(c);
    }
  }
  void launch_matmuls(MatmulCase c) {
    for_every_kernel([&](const ProblemClass& problem, const LoadedKernel& kernel, int32_t splits) {
      for (int64_t m : {problem.m_lo, std::min<int64_t>(problem.m_hi, problem.m_lo + 5)}) {
        c.m = m;
        MatmulRequest own(c, &random_);
        set_current_case(c.describe());
        launch(problem, kernel, {m, c.n, c.k, 1}, splits, arguments_of(*own.desc()), &own);
      }
    });
  }

  // Runs a kernel's best candidate with this way to prefetch, unless the oracle has chosen such a kernel already.
  void run_prefetch(MatmulCase c, const std::string& kernel, int what) {
    for (const int64_t m : {1, 2, 12}) {
      if (fetches_.count({kernel, what}) != 0) return;
      c.m = m;
      MatmulRequest request(c, &random_);
      const auto legal = legal_candidates(laptop_, *request.desc());
      const auto found = std::find_if(legal.begin(), legal.end(), [&](const Json& candidate) {
        const Json& config = candidate["config"];
        return config["kernel"] == kernel && config.value("prefetch", 0) == what;
      });
      if (found == legal.end()) continue;
      lathe_tuning tuning = LATHE_TUNING_INIT;
      tuning.candidate = static_cast<int32_t>(found - legal.begin() + 1);
      lathe_matmul_desc desc = *request.desc();
      desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
      ASSERT_LATHE_OK(warm_weight(laptop_, desc, m));
      launch_matmuls(c);
    }
    EXPECT_EQ(fetches_.count({kernel, what}), 1u) << "no candidate of " << kernel << " has prefetch " << what;
  }

  // The same for a packed weight and for the buckets from `least_m` on.
  void run_packed(MatmulCase c, int64_t max_m, int64_t least_m = 1) {
    PackedRequest weight(laptop_, c, &random_);
    ASSERT_LATHE_OK(weight.status());
    ASSERT_LATHE_OK(warm_weight(laptop_, *weight.request().desc(), max_m));
    for_every_kernel([&](const ProblemClass& problem, const LoadedKernel& kernel, int32_t splits) {
      if (problem.m_lo < least_m) return;
      for (int64_t m : {problem.m_lo, std::min<int64_t>(problem.m_hi, problem.m_lo + 5)}) {
        c.m = m;
        PackedRequest own(laptop_, c, &random_);
        set_current_case(c.describe());
        launch(problem, kernel, {m, c.n, c.k, 1}, splits, arguments_of(*own.request().desc()),
               &own.request());
      }
    });
  }

  void run_argmaxes() {
    for (lathe_dtype in : kFloats) {
      for (bool wants_values : {false, true}) {
        ArgmaxCase c;
        c.in = in;
        c.wants_values = wants_values;
        c.index = wants_values ? LATHE_I32 : LATHE_I64;
        for (int64_t n : {900, 16000, 20011}) {
          c.n = n;
          const ArgmaxRequest weight(c, &random_);
          ASSERT_LATHE_OK(warm_weight(laptop_, *weight.desc()));
        }
        for_every_kernel([&](const ProblemClass& problem, const LoadedKernel& kernel, int32_t splits) {
          for (int kind = 0; kind < kRowsKinds; ++kind) {
            c.kind = static_cast<Rows>(kind);
            c.rows = random_.between(1, 9);
            c.n = random_.between(problem.row_lo, std::min<int64_t>(problem.row_hi, problem.row_lo + 5000));
            c.padding = kind % 3;
            ArgmaxRequest request(c, &random_);
            set_current_case(c.describe());
            const ArgumentBlock args = arguments_of(*request.desc());
            for (int32_t wanted : {1, splits})
              launch(problem, kernel, {c.rows, c.n, 0, 1}, wanted, args, &request);
          }
        });
      }
    }
    EXPECT_GT(runs_, 100);
  }

  template <typename Request>
  void launch(const ProblemClass& problem, const LoadedKernel& kernel, const Dims& dims, int32_t splits,
              ArgumentBlock args, Request* request) {
    request->reset_output();
    Launch launch;
    launch.kernel = &kernel;
    launch.dims = dims;
    launch.config = make_launch_config(kernel.recipe(), problem, dims, splits);
    args.splits = launch.config.splits;
    args.k_chunk = launch.config.k_chunk;
    launch.args = &args;
    const absl::Status status = driver_->launch(launch);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(request->check());
    ++runs_;
  }

  TemporaryDirectory directory_;
  lathe_context* context_ = nullptr;
  lathe_device* laptop_ = nullptr;
  std::unique_ptr<Driver> driver_;
  Random random_ = random_stream(13);
  int runs_ = 0;
  std::set<std::string> ukernels_;
  std::set<std::pair<std::string, int>> fetches_;  // kernels and their CpuFetch (kernels/matmul/cpu/shape.h)
};

TEST_F(Avx2, MatmulsAreRight) {
  const int64_t weights[][2] = {{37, 71}, {130, 300}, {16, 1030}};
  for (int layout = 0; layout < 4; ++layout) {
    for (const auto& weight : weights) {
      MatmulCase c;
      c.n = weight[0];
      c.k = weight[1];
      c.trans_a = layout & 1;
      c.trans_b = layout & 2;
      constexpr lathe_dtype kInputs[] = {LATHE_F32, LATHE_F16, LATHE_BF16, LATHE_I8};
      c.in = kInputs[random_.below(4)];
      if (c.in == LATHE_I8) c.alpha = 0x1p-8f;  // keeps results within the range of f16
      c.out = kFloats[random_.below(3)];
      c.bias = kFloats[random_.below(3)];
      c.activation = static_cast<lathe_activation>(random_.below(5));
      c.residual_mode = ResidualMode::kSeparate;
      c.residual = kFloats[random_.below(3)];
      c.values = random_.below(2) ? Values::kSmallIntegers : Values::kNormal;
      c.padding = random_.below(2) * 3;
      c.flush = random_.below(2) ? Flush::kStart : Flush::kEnd;
      run_matmuls(c);
    }
  }
  std::printf("%d launches\n", runs_);
  EXPECT_GT(runs_, 300);
}

// Where software prefetch costs bandwidth (Zen 3), some kernels do not prefetch, and others spread the prefetch over
// several passes. Argmax reads rows in parts.
TEST_F(Avx2, KernelsForZen3AreRight) {
  describe_with({{"ahead_bytes_per_second", 12e9}});
  const int64_t weights[][2] = {{130, 300}, {45, 71}, {16, 1030}, {37, 2048}, {210, 1025}};
  for (int i = 0; i < 10; ++i) {
    MatmulCase c;
    c.n = weights[i % 5][0];
    c.k = weights[i % 5][1];
    c.in = LATHE_F32;
    c.trans_b = true;
    c.out = kFloats[random_.below(3)];
    c.bias = random_.below(2) ? LATHE_F32 : LATHE_DTYPE_NONE;
    c.activation = static_cast<lathe_activation>(random_.below(5));
    c.values = random_.below(2) ? Values::kSmallIntegers : Values::kNormal;
    c.padding = random_.below(2) * 3;
    c.flush = i < 5 ? Flush::kStart : Flush::kEnd;
    run_matmuls(c);
  }
  EXPECT_GT(runs_, 300);
  run_argmaxes();
  MatmulCase c;
  c.n = 37, c.k = 2048;
  c.in = LATHE_F32;
  c.trans_b = true;
  for (const auto& [kernel, what] : {std::pair{"dot", 5}, {"direct", 5}, {"direct", 6}, {"direct_a", 6}})
    run_prefetch(c, kernel, what);
  c.n = 300, c.k = 1030, c.trans_b = false;  // runs of columns, in K blocks of which the last one is short
  run_matmuls(c);
  run_prefetch(c, "direct_a", 3);
  for (const char* function : {"lathe_argmax_parts_f32", "lathe_argmax_parts_f16", "lathe_argmax_parts_bf16"})
    EXPECT_EQ(ukernels_.count(function), 1u) << function;
}

// Where a core reads fast (Zen 5), the passes of some kernels take turns on the columns of a tile, in blocks of K.
TEST_F(Avx2, KernelsForZen5AreRight) {
  // The higher clock makes up for vectors of half the lanes.
  describe_with({{"prefetch_into_l1", 1},
                 {"core_bytes_per_second", 40e9},
                 {"pace_bytes_per_second", 43e9},
                 {"clock_hz", 6e9}});
  // Weights larger than L2, with columns and rows that no tile, group or block divides.
  const int64_t weights[][2] = {{131, 2048}, {277, 1030}, {149, 2305}};
  for (int i = 0; i < 6; ++i) {
    MatmulCase c;
    c.n = weights[i % 3][0];
    c.k = weights[i % 3][1];
    c.in = i < 3 ? LATHE_F32 : LATHE_I8;
    c.trans_b = true;
    c.out = i < 3 ? kFloats[random_.below(3)] : LATHE_F32;
    c.values = Values::kSmallIntegers;
    c.padding = random_.below(2) * 3;
    c.flush = i % 2 ? Flush::kStart : Flush::kEnd;
    run_matmuls(c);
  }
  for (lathe_dtype b : {LATHE_F16, LATHE_BF16}) {
    MatmulCase c;
    c.n = 2 * weights[b == LATHE_F16][0] + 1;
    c.k = 2 * weights[b == LATHE_F16][1] + 1;
    c.b = b;
    c.trans_b = true;
    c.values = Values::kSmallIntegers;
    c.padding = random_.below(2) * 3;
    c.flush = b == LATHE_F16 ? Flush::kStart : Flush::kEnd;
    run_matmuls(c);
  }
  for (int n : {1031, 1410}) {
    MatmulCase c;
    c.n = n;
    c.k = 517;
    c.values = Values::kSmallIntegers;
    c.padding = random_.below(2) * 3;
    c.flush = n == 1031 ? Flush::kStart : Flush::kEnd;
    run_matmuls(c);
  }
  EXPECT_GT(runs_, 300);
  MatmulCase c;
  c.n = 277, c.k = 4099;
  c.in = LATHE_F32;
  for (int what : {2, 4, 5}) run_prefetch(c, "outer", what);
  c.trans_b = true;
  for (int what : {2, 3, 5, 6}) run_prefetch(c, "dot", what);
  c.b = LATHE_BF16;
  run_prefetch(c, "dot", 7);
  run_argmaxes();
  for (const char* function : {"lathe_argmax_short_f32", "lathe_argmax_short_f16", "lathe_argmax_short_bf16"})
    EXPECT_EQ(ukernels_.count(function), 1u) << function;
}

TEST_F(Avx2, WeightsOf16BitsByF32AreRight) {
  const int64_t weights[][2] = {{37, 71}, {130, 300}, {16, 1030}};
  for (int i = 0; i < 6; ++i) {
    MatmulCase c;
    c.n = weights[i % 3][0];
    c.k = weights[i % 3][1];
    c.b = i % 2 ? LATHE_F16 : LATHE_BF16;
    c.trans_a = random_.below(4) == 0;
    c.trans_b = i < 3;
    c.out = kFloats[random_.below(3)];
    c.values = random_.below(2) ? Values::kSmallIntegers : Values::kNormal;
    c.flush = random_.below(2) ? Flush::kStart : Flush::kEnd;
    run_matmuls(c);
  }
  EXPECT_GT(runs_, 200);
}

TEST_F(Avx2, WeightsInBlocksAreRight) {
  const int64_t weights[][2] = {{37, 96}, {130, 352}, {16, 1056}};
  // Three formats a run.
  const auto& formats = reference::block_formats();
  const auto first = static_cast<size_t>(random_.below(static_cast<int64_t>(formats.size())));
  for (size_t i = 0; i < 3; ++i) {
    const reference::BlockFormat& f = formats[(first + i) % formats.size()];
    MatmulCase c;
    c.n = weights[i][0];
    c.k = (weights[i][1] + f.elements - 1) / f.elements * f.elements;
    c.in = kFloats[(static_cast<int64_t>(i) + random_.below(3)) % 3];
    c.b = f.dtype;
    c.trans_a = random_.below(4) == 0;
    c.trans_b = true;
    c.bias = kFloats[random_.below(3)];
    c.math = i ? LATHE_MATH_INT8 : LATHE_MATH_STRICT;
    c.values = random_.below(2) ? Values::kSmallIntegers : Values::kNormal;
    c.padding = random_.below(2) * 3;
    c.flush = random_.below(2) ? Flush::kStart : Flush::kEnd;
    run_matmuls(c);
  }
  EXPECT_GT(runs_, 150);
}

TEST_F(Avx2, ScalesAndZeroPointsAreRight) {
  // Every granularity, with and without a zero point. Each seed runs another quarter of them.
  for (int64_t which = random_.below(4); which < 18; which += 4) {
    MatmulCase c;
    c.n = which % 3 ? 130 : 37;
    c.k = which % 3 ? 300 : 71;
    c.in = LATHE_I8;
    c.scale_a = static_cast<int>(which % 3);
    c.scale_b = static_cast<int>(which / 3 % 3);
    c.has_zero_point = which >= 9;
    c.zero_b = random_.below(2);
    c.zero_point = static_cast<int32_t>(random_.between(-128, 127));
    c.trans_a = random_.below(4) == 0;
    c.trans_b = random_.below(2) == 0;
    c.out = random_.below(2) ? LATHE_F32 : LATHE_BF16;
    c.values = random_.below(2) ? Values::kSmallIntegers : Values::kNormal;
    c.flush = random_.below(2) ? Flush::kStart : Flush::kEnd;
    run_matmuls(c);
  }
  EXPECT_GT(runs_, 200);
}

// With many rows and a core that reads fast, kernels build their panels from the packed panels of B.
TEST_F(Avx2, PackedWeightsForZen5AreRight) {
  describe_with({{"prefetch_into_l1", 1}, {"core_bytes_per_second", 40e9}});
  const int64_t weights[][2] = {{301, 2071}, {130, 300}, {16, 1031}};
  for (lathe_dtype b : {LATHE_F32, LATHE_F16, LATHE_BF16})
    for (const auto& weight : weights) {
      MatmulCase c;
      c.n = weight[0], c.k = weight[1];
      if (b != LATHE_F32) c.b = b;
      c.trans_b = true;
      c.bias = LATHE_F32;
      c.values = random_.below(2) ? Values::kSmallIntegers : Values::kNormal;
      c.padding = random_.below(2) * 3;
      c.m = 263;
      c.split_k = weight[1] > 2000 && b != LATHE_F32 ? 2 : 0;
      run_packed(c, 300, 129);
    }
  EXPECT_GT(runs_, 8);
  EXPECT_EQ(fetches_.count({"direct_packed", 1}), 1u);
}

TEST_F(Avx2, PackedWeightsAreRight) {
  // Enough columns for panels: with fewer columns the weight would be packed by column.
  const int64_t weights[][2] = {{45, 71}, {130, 300}, {16, 1030}};
  for (int i = 0; i < 5; ++i) {
    MatmulCase c;
    c.n = weights[i % 3][0];
    c.k = weights[i % 3][1];
    constexpr lathe_dtype kPacked[] = {LATHE_F16, LATHE_F32, LATHE_I8, LATHE_BF16};
    c.in = kPacked[i % 4];
    if (i == 4) c.b = LATHE_BF16, c.in = LATHE_F32;
    c.trans_a = random_.below(4) == 0;
    c.trans_b = random_.below(2) == 0;
    c.activation = static_cast<lathe_activation>(random_.below(5));
    c.values = random_.below(2) ? Values::kSmallIntegers : Values::kNormal;
    c.split_k = i == 2 ? 2 : 0;
    run_packed(c, kMaxM);
  }
  EXPECT_GT(runs_, 80);
}

TEST_F(Avx2, ArgmaxesAreRight) { run_argmaxes(); }

}  // namespace
}  // namespace lathe::conformance

#endif
