// Cache entries that are complete and have the right key, but contain code that the CPU's loader refuses. Each is
// compiled again once and replaced. The test writes the entries with internal parts; all else goes through the public
// API.
#include <gtest/gtest.h>

#include <functional>

#include "cache/cache.h"
#include "device.h"
#include "matmul_case.h"

namespace lathe::conformance {
namespace {

class RefusedCode : public ConformanceTest {
 protected:
  void SetUp() override {
    ConformanceTest::SetUp();
    if (IsSkipped()) return;
    SKIP_UNLESS_CPU("this tests the CPU's loader");
    case_.m = 7;
    case_.n = 70;
    case_.k = 90;
  }

  struct Outcome {
    uint64_t compiles, disk_hits;
  };
  // Runs the request in a new context and checks its result.
  Outcome run() {
    lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
    options.cache_dir = directory_.path().c_str();
    options.workers = 2;
    options.log = [](void* self, lathe_log_level level, const char* text) {
      if (level <= LATHE_LOG_WARNING) static_cast<RefusedCode*>(self)->warnings_.push_back(text);
    };
    options.log_user = this;
    options.log_level = LATHE_LOG_WARNING;
    const OpenDevice device(options);
    EXPECT_LATHE_OK(device.status());
    Random random = random_stream(3);
    MatmulRequest request(case_, &random);
    EXPECT_TRUE(request.run(device.get()));
    lathe_plan* plan = nullptr;
    EXPECT_LATHE_OK(lathe_plan_matmul(device.get(), request.desc(), &plan));
    std::string explanation;
    const auto take = [](void* user, const char*, const char* text, size_t size) {
      static_cast<std::string*>(user)->append(text, size);
    };
    EXPECT_LATHE_OK(lathe_plan_explain(plan, take, &explanation));
    lathe_plan_destroy(plan);
    key_ = key_from_text(Json::parse(explanation)["key"]["text"]);
    return {device.statistics().compiles, device.statistics().disk_hits};
  }
  // Changes the artifact of the entry and stores it as a valid entry: key and checksum are right, only the code is
  // wrong.
  void change(const std::function<void(Artifact*)>& how) {
    CacheOptions options;
    options.directory = directory_.path();
    const std::unique_ptr<ArtifactCache> cache = make_cache(options);
    const auto found = cache->get(key_);
    ASSERT_TRUE(found.ok()) << found.status();
    Artifact artifact = *found->artifact;
    how(&artifact);
    cache->replace(key_, std::move(artifact));
  }

  const TemporaryDirectory directory_;
  MatmulCase case_;
  Key key_;
  std::vector<std::string> warnings_;
};

TEST_F(RefusedCode, IsRecompiledOnceAndReplaced) {
  const Outcome first = run();
  EXPECT_EQ(first.compiles, 1u);
  const std::pair<const char*, std::function<void(Artifact*)>> ways[] = {
      {"not an object", [](Artifact* a) { a->code = "junk"; }},
      {"half of the object", [](Artifact* a) { a->code.resize(a->code.size() / 2); }},
      {"only the headers", [](Artifact* a) { a->code.resize(64); }},
      {"garbage after the ELF header",
       [](Artifact* a) { std::fill(a->code.begin() + 64, a->code.end(), '\x5a'); }},
      {"code for another machine", [](Artifact* a) { a->code[18] = '\xf7'; }},
      {"another symbol", [](Artifact* a) { a->recipe.steps[0].symbol = "nobody"; }},
      {"the recipe of another device", [](Artifact* a) { a->recipe.steps[0].kind = StepKind::kGpuKernel; }},
      {"another code format", [](Artifact* a) { a->format = CodeFormat::kPtx; }},
      {"an alignment that no pointer has", [](Artifact* a) { a->recipe.pointer_alignment = 4096; }},
  };
  for (const auto& [what, way] : ways) {
    change(way);
    warnings_.clear();
    const Outcome second = run();
    EXPECT_EQ(second.compiles, 1u) << what;
    ASSERT_EQ(warnings_.size(), 1u) << what;
    EXPECT_NE(warnings_[0].find(key_.fingerprint), std::string::npos) << warnings_[0];
    const Outcome third = run();
    EXPECT_EQ(third.compiles, 0u) << what;
    EXPECT_EQ(third.disk_hits, 1u) << what;
    EXPECT_EQ(warnings_.size(), 1u) << what;
  }
}

}  // namespace
}  // namespace lathe::conformance
