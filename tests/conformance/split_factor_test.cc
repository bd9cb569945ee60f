// One kernel serves every split factor. With any factor it gives the same bits as a kernel compiled for that factor
// only.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <sstream>

#include "arguments.h"
#include "cache/cache.h"
#include "case_limits.h"
#include "device.h"
#include "lathe/pipelines.h"
#include "matmul_case.h"
#include "nlohmann/json.hpp"
#include "runtime/driver.h"

namespace lathe::conformance {
namespace {

using Plain = nlohmann::json;

// The parameter is the dtype of A, B and D.
class SplitFactor : public ConformanceTest, public testing::WithParamInterface<lathe_dtype> {
 protected:
  // The built-in pipeline, changed to make the launch parameters constants after the payload is distributed.
  static std::string fixed_pipeline() {
    const std::string backend = is_cpu() ? "cpu" : device_name().substr(0, 4) == "cuda" ? "cuda" : "rocm";
    std::ifstream in(source_path("LATHE_KERNELS_DIR", LATHE_KERNELS_DIR) + "/matmul/" + backend + ".yaml");
    std::stringstream text;
    text << in.rdbuf();
    std::string yaml = text.str();
    const size_t at = yaml.find("  - name: kernel");
    EXPECT_NE(at, std::string::npos) << yaml;
    return yaml.insert(
        at,
        "  - name: fix\n    passes: >-\n      func.func(lathe-fix-launch{splits=${params.splits} "
        "k-chunk=${params.k_chunk}}),canonicalize,cse\n");
  }

  // A device whose matmuls are compiled for one factor.
  std::unique_ptr<OpenDevice> fixed_device(int64_t splits, int64_t k_chunk, const std::string& cache) {
    const std::string yaml = directory_.path() + "/fixed.yaml", json = directory_.path() + "/fixed.json";
    std::ofstream(yaml) << fixed_pipeline();
    std::ofstream(json)
        << Plain{{"lathe_params", 1}, {"parameters", {{"splits", splits}, {"k_chunk", k_chunk}}}}.dump();
    const char* path = yaml.c_str();
    lathe_pipelines pipelines = LATHE_PIPELINES_INIT;
    pipelines.paths = &path;
    pipelines.count = 1;
    pipelines.parameters = json.c_str();
    lathe_context_options options = memory_only(2);
    if (!cache.empty()) options.cache_dir = cache.c_str();
    options.next = reinterpret_cast<const lathe_chain*>(&pipelines);
    auto opened = std::make_unique<OpenDevice>(options);
    EXPECT_EQ(opened->status(), LATHE_OK) << lathe_last_error();
    return opened;
  }

  static Plain plan_of(lathe_device* device, const MatmulRequest& request) {
    lathe_plan* plan = nullptr;
    EXPECT_LATHE_OK(lathe_plan_matmul(device, request.desc(), &plan));
    const Plain json = plan == nullptr ? Plain::object() : Plain::parse(explain(plan));
    lathe_plan_destroy(plan);
    return json;
  }

  // The rank of the candidate with this config at that factor; 0 if there is none.
  static int32_t rank_of(const Plain& plan, const Plain& config) {
    for (const Plain& candidate : plan["candidates"])
      if (candidate["legal"] == true && candidate["config"] == config) return candidate["rank"];
    return 0;
  }

  // The best kernel for the last factor that all factors can use. The factor of a cluster is its shape, so a cluster
  // cannot change it.
  static Plain common_config(const std::vector<int32_t>& factors, MatmulRequest* request) {
    std::vector<Plain> plans;
    for (int32_t factor : factors) {
      request->set_tuning(factor, 0);
      plans.push_back(plan_of(device(), *request));
    }
    for (const Plain& candidate : plans.back()["candidates"]) {
      const Plain& config = candidate["config"];
      const int split = config.value("split", 0);
      const bool takes_any = split == 1 || split == 2;
      if (takes_any &&
          std::all_of(plans.begin(), plans.end(), [&](const Plain& p) { return rank_of(p, config) > 0; }))
        return config;
    }
    return nullptr;
  }

  static MatmulCase long_k() {
    MatmulCase c;
    c.in = c.out = GetParam();
    c.m = 5;
    c.n = 24;
    c.k = quick_or(700, 51234);
    c.trans_b = true;
    c.bias = LATHE_F32;
    c.determinism = LATHE_DETERMINISM_RUN_TO_RUN;
    return c;
  }

  // All factors from 2 to 128; a few on an emulator.
  static std::vector<int32_t> factors() {
    if (is_quick()) return {2, 7, 19};
    std::vector<int32_t> all(127);
    std::iota(all.begin(), all.end(), 2);
    return all;
  }

  TemporaryDirectory directory_;
  Random random_ = random_stream(31);
};

TEST_P(SplitFactor, SharedKernelGivesTheBitsOfADedicatedKernel) {
  run_every_case();
  MatmulRequest request(long_k(), &random_);
  OpenDevice one(memory_only(2));
  ASSERT_EQ(one.status(), LATHE_OK);
  const std::vector<int32_t> all = factors();
  const Plain config = common_config({2, 7, 19, all.back()}, &request);
  ASSERT_FALSE(config.is_null()) << "no kernel serves every factor";
  for (int32_t factor : all) {
    // A device that plans this factor for the first time must choose the kernel of the other factors.
    request.set_tuning(factor, 1);
    const int32_t rank = rank_of(plan_of(device(), request), config);
    ASSERT_GT(rank, 0) << factor << " splits have no candidate " << config;
    request.set_tuning(factor, rank);
    ASSERT_TRUE(request.run(one.get())) << factor;
    const std::vector<uint8_t> bits = request.output();
    const Plain launch = plan_of(one.get(), request)["launch"];
    auto fixed = fixed_device(launch["splits"], launch["k_chunk"], "");
    ASSERT_TRUE(request.run(fixed->get())) << factor;
    EXPECT_EQ(fixed->statistics().compiles, 1u);
    EXPECT_TRUE(request.output() == bits) << factor << " splits: the dedicated kernel gives other bits";
  }
  EXPECT_EQ(one.statistics().compiles, 1u) << all.size() << " factors";
  std::printf("%zu factors by one kernel\n", all.size());
}

// No plan gives a splitting kernel the factor 1, so this calls the driver directly.
TEST_P(SplitFactor, AcceptsAFactorOf1) {
  SKIP_UNLESS_CPU("this calls the CPU's driver directly");
  MatmulRequest request(long_k(), &random_);
  request.set_tuning(7, 0);
  struct Kernel {
    ProblemClass problem;
    std::unique_ptr<LoadedKernel> kernel;
    std::string code;
  };
  auto driver = open_driver("cpu", [] {
    DriverOptions options;
    options.workers = 2;
    return options;
  }());
  ASSERT_TRUE(driver.ok()) << driver.status().ToString();
  const auto only_kernel = [&](const std::string& cache_directory) {
    CacheOptions options;
    options.directory = cache_directory;
    const auto cache = make_cache(options);
    const CacheListing listing = cache->list().value();
    EXPECT_EQ(listing.entries.size(), 1u);
    const std::string& key = listing.entries.at(0).key_text;
    EXPECT_NE(Plain::parse(key)["config"].value("split", 0), 0);
    const std::shared_ptr<const Artifact> artifact = (*cache->get(key_from_text(key))).artifact;
    return Kernel{*problem_class_from_json(*parse_json(key, "key").value().find("class")),
                  *(*driver)->load(*artifact), artifact->code};
  };
  const auto launched = [&](const Kernel& kernel, int32_t factor) {
    request.reset_output();
    Launch launch;
    launch.kernel = kernel.kernel.get();
    const MatmulCase& c = request.parameters();
    launch.dims = {c.m, c.n, c.k, 1};
    launch.config = make_launch_config(kernel.kernel->recipe(), kernel.problem, launch.dims, factor);
    ArgumentBlock args = arguments_of(*request.desc());
    args.splits = launch.config.splits;
    args.k_chunk = launch.config.k_chunk;
    launch.args = &args;
    const absl::Status status = (*driver)->launch(launch);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(request.check()) << factor;
    return std::make_pair(launch.config, request.output());
  };
  TemporaryDirectory one;
  {
    lathe_context_options options = memory_only(2);
    options.cache_dir = one.path().c_str();
    OpenDevice opened(options);
    plan_of(opened.get(), request);
  }
  const Kernel kernel = only_kernel(one.path());
  for (int32_t factor : {1, 2, 100}) {
    const auto [config, bits] = launched(kernel, factor);
    TemporaryDirectory own;
    plan_of(fixed_device(config.splits, config.k_chunk, own.path())->get(), request);
    const Kernel alone = only_kernel(own.path());
    EXPECT_TRUE(launched(alone, factor).second == bits) << factor;
    EXPECT_FALSE(alone.code == kernel.code) << "no parameter became a constant";
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, SplitFactor, testing::Values(LATHE_F32, LATHE_BF16), [](const auto& info) {
  return std::string(info.param == LATHE_F32 ? "f32" : "bf16");
});

}  // namespace
}  // namespace lathe::conformance
