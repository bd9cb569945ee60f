#include "dispatch/device.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "fake_device.h"

namespace lathe {
namespace {

void append(void* user, const char*, const char* text, size_t size) {
  static_cast<std::string*>(user)->append(text, size);
}

DispatchKey key_of_request(const lathe_matmul_desc& desc) {
  Request r;
  EXPECT_TRUE(read_matmul(&desc, Purpose::kPlan, {"fake", true, MissPolicy::kBlock}, nullptr, &r).ok());
  return r.key;
}

TEST(Device, OpensByName) {
  FakeDevice fake;
  lathe_context* context = fake.context.get();
  lathe_device* device = nullptr;
  ASSERT_EQ(lathe_device_open(context, "cpu", &device), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(device->workers, 2) << "the option of the context";
  lathe_device_close(device);
  EXPECT_EQ(lathe_device_open(context, "abacus", &device), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(device, nullptr);
  EXPECT_EQ(lathe_device_open(context, nullptr, &device), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_device_open(nullptr, "cpu", &device), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_device_open(context, "cpu", nullptr), LATHE_INVALID_ARGUMENT);
  lathe_device_close(nullptr);
}

// PTX is assembled at compile time only for a described device. The assembler's complaints are logged, and a missing
// assembler is logged once.
TEST(Device, AssemblesPtxOnlyWithoutADriver) {
  std::vector<std::string> log;
  ContextOptions options;
  options.compiler_library = fake_compiler();
  options.log_sink = [&](LogLevel, const std::string& message) { log.push_back(message); };
  options.assembler.emplace().ptxas = "/some/ptxas";
  lathe_context context(options);
  const DeviceFacts facts = load_facts(facts_file("h200.json")).value();
  lathe_device described(context, "described", facts, nullptr);
  lathe_device driven(context, "driven", facts, std::make_unique<FakeDriver>(facts));
  const auto compile = [&](lathe_device& device, int64_t n) {
    const DispatchKey key = key_of_request(MatmulRequest(2, n, 4).desc);
    const auto result = find_or_compile(device, key.problem, choose_plan(device, key).value());
    return Json::parse(result.value().artifact->code);
  };
  EXPECT_FALSE(compile(driven, 8).contains("assemble"));
  EXPECT_TRUE(log.empty());
  EXPECT_EQ(compile(described, 9)["assemble"]["ptxas"], "/some/ptxas");
  EXPECT_EQ(compile(described, 10)["assemble"]["ptxas"], "/some/ptxas");
  ASSERT_EQ(log.size(), 3u) << log.front();
  EXPECT_NE(log[0].find("no ptxas"), std::string::npos) << log[0];
  EXPECT_EQ(log[1], "described: fake: 8 bytes spill stores");
  EXPECT_EQ(log[2], log[1]);
}

TEST(Device, ListsEveryBackend) {
  FakeDevice fake;
  std::string text;
  ASSERT_EQ(lathe_devices(fake.context.get(), append, &text), LATHE_OK) << lathe_last_error();
  const Json devices = Json::parse(text);
  std::set<std::string> prefixes;
  for (const Json& device : devices) {
    const std::string name = device["name"];
    prefixes.insert(name.substr(0, name.find(':')));
    if (device["available"].get<bool>()) {
      EXPECT_EQ(device["reason"], "") << name;
      ASSERT_FALSE(device["facts"].empty()) << name;
      for (const Json& fact : device["facts"]) EXPECT_NE(fact["source"], "") << name;
    } else {
      EXPECT_NE(device["reason"], "") << name;
    }
  }
  EXPECT_EQ(prefixes, (std::set<std::string>{"cpu", "cuda", "hip", "spirv"}));
}

TEST(Device, CanBeDescribedByFacts) {
  FakeDevice fake;
  lathe_context* context = fake.context.get();
  lathe_device* device = nullptr;
  ASSERT_EQ(lathe_device_describe(context, facts_file("h200.json").c_str(), nullptr, &device), LATHE_OK)
      << lathe_last_error();
  EXPECT_EQ(device->facts.target.arch, "sm_90a");
  EXPECT_EQ(device->workers, 1);
  EXPECT_FALSE(device->is_cpu);
  lathe_device_close(device);
  ASSERT_EQ(lathe_device_describe(context, facts_file("h200.json").c_str(), "sm_80", &device), LATHE_OK)
      << lathe_last_error();
  EXPECT_EQ(device->facts.target.arch, "sm_80");
  lathe_device_close(device);

  EXPECT_EQ(lathe_device_describe(context, facts_file("h200.json").c_str(), "gfx942", &device),
            LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_device_describe(context, facts_file("h200.json").c_str(), "sm_9", &device),
            LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_device_describe(context, "/nowhere.json", nullptr, &device), LATHE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(lathe_last_error()).find("/nowhere.json"), std::string::npos) << lathe_last_error();
  EXPECT_EQ(lathe_device_describe(context, nullptr, nullptr, &device), LATHE_INVALID_ARGUMENT);
}

TEST(Device, WarnsIfFactsAreOfAnotherTarget) {
  std::vector<std::string> log;
  const Logger logger(LogLevel::kWarning, [&](LogLevel, const std::string& line) { log.push_back(line); });
  for (const char* own : {"", "sm_90a"})
    EXPECT_TRUE(described_facts(facts_file("h200.json"), own, logger).ok());
  EXPECT_TRUE(log.empty());
  EXPECT_TRUE(described_facts(facts_file("h200.json"), "sm_80", logger).ok());
  ASSERT_EQ(log.size(), 1u);
  for (const char* word : {"h200.json", "of sm_90a", "for sm_80"})
    EXPECT_NE(log[0].find(word), std::string::npos) << log[0];
}

TEST(Device, NamedAssemblerMustExist) {
  ContextOptions options;
  options.assembler = AssemblerSearch();
  options.assembler->ptxas = "/nowhere/ptxas";
  lathe_context made(std::move(options));
  lathe_context* context = &made;
  lathe_device* device = nullptr;
  EXPECT_EQ(lathe_device_describe(context, facts_file("h200.json").c_str(), nullptr, &device),
            LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(device, nullptr);
  EXPECT_STREQ(lathe_last_error(), "LATHE_PTXAS: /nowhere/ptxas: No such file or directory");
  // AMD devices use no PTX.
  ASSERT_EQ(lathe_device_describe(context, facts_file("mi300x.json").c_str(), nullptr, &device), LATHE_OK)
      << lathe_last_error();
  lathe_device_close(device);
}

TEST(Device, DescribedDeviceCannotRun) {
  FakeDevice fake;
  MatmulRequest m(7, 40, 33);
  ArgmaxRequest a(3, 100);
  EXPECT_EQ(lathe_matmul(fake.described.get(), nullptr, &m.desc), LATHE_NOT_AVAILABLE);
  EXPECT_EQ(lathe_argmax(fake.described.get(), nullptr, &a.desc), LATHE_NOT_AVAILABLE);
}

TEST(Device, FingerprintCoversFactsWorkersAndTarget) {
  FakeDevice fake;
  uint64_t first = 0;
  ASSERT_EQ(lathe_device_fingerprint(fake.device.get(), &first), LATHE_OK);
  EXPECT_EQ(fingerprint_of(*fake.described), first) << "same facts, target and workers";

  const auto changed = [&](auto&& change) {
    DeviceFacts facts = fake.device->facts;
    change(&facts);
    return fingerprint_of(lathe_device(*fake.context, "x", facts, nullptr));
  };
  EXPECT_EQ(changed([](DeviceFacts* f) { f->facts["l2_bytes"].source = "elsewhere"; }), first);
  EXPECT_EQ(changed([](DeviceFacts* f) { f->machine = "told otherwise"; }), first);
  EXPECT_EQ(changed([](DeviceFacts* f) { f->calibration = "measured"; }), first);
  EXPECT_NE(changed([](DeviceFacts* f) { f->facts["l2_bytes"].value += 1; }), first);
  EXPECT_NE(changed([](DeviceFacts* f) { f->facts["l1_bytes_per_second"] = {3e11, "measured: x"}; }), first);
  EXPECT_NE(changed([](DeviceFacts* f) { f->target.features += ",+avx512f"; }), first);
  EXPECT_EQ(lathe_device_fingerprint(nullptr, &first), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_device_fingerprint(fake.device.get(), nullptr), LATHE_INVALID_ARGUMENT);
}

TEST(Device, TakesOrRefusesForcedCandidates) {
  FakeDevice fake;
  DispatchKey key = key_of_request(MatmulRequest(7, 40, 33).desc);
  const absl::StatusOr<Choice> best = choose_plan(*fake.device, key);
  ASSERT_TRUE(best.ok()) << best.status();
  EXPECT_EQ(best->rank, 0u);
  ASSERT_GE(best->answer.legal, 2u);
  key.candidate = 2;
  const absl::StatusOr<Choice> second = choose_plan(*fake.device, key);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(second->plan().config == best->answer.ranked[1].plan.config);
  EXPECT_NE(second->key.text, best->key.text);

  key.candidate = static_cast<int32_t>(best->answer.ranked.size()) + 1;
  EXPECT_EQ(choose_plan(*fake.device, key).status().code(), absl::StatusCode::kInvalidArgument);
  if (best->answer.legal < best->answer.ranked.size()) {
    key.candidate = static_cast<int32_t>(best->answer.legal) + 1;
    const absl::Status rejected = choose_plan(*fake.device, key).status();
    EXPECT_EQ(rejected.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(rejected.message()).find(best->answer.ranked[best->answer.legal].rejection),
              std::string::npos)
        << rejected;
  }
}

TEST(Device, KeepsTheFirstKernelOfAKey) {
  LoadedKernels kernels;
  const Key key = key_from_text("{}");
  EXPECT_EQ(kernels.find(key), nullptr);
  const LoadedKernel* first = kernels.insert(key, std::make_unique<FakeKernel>(Artifact()));
  EXPECT_EQ(kernels.insert(key, std::make_unique<FakeKernel>(Artifact())), first);
  EXPECT_EQ(kernels.find(key), first);
}

// A fixed launch config equals what the formulas give for every M and batch of the class.
TEST(Device, FixesTheLaunchIfTheClassDeterminesIt) {
  ProblemClass c;
  c.n = 40;
  c.k = 5123;
  c.m_lo = 17;
  c.m_hi = 32;
  const Formula partials = product(4, {{Var::kM}, {Var::kN}, {Var::kSplits}, {Var::kMerge}});
  const Formula panel = product(4, {{Var::kN, 16}, {Var::kK}});
  struct {
    Formula workspace, scratch;
    int32_t splits;
    bool fixed;
  } const cases[] = {
      {{}, {}, 1, true},
      {{}, constant(128), 7, true},
      {partials, panel, 1, true},
      {partials, panel, 7, false},
      {panel, product(8, {{Var::kM, 4}}), 1, false},
      {product(8, {{Var::kBatch}}), {}, 1, false},
  };
  for (const auto& test : cases) {
    Artifact artifact;
    artifact.recipe.workspace_bytes = test.workspace;
    artifact.recipe.scratch_bytes_per_worker = test.scratch;
    artifact.recipe.k_granularity = 8;
    const FakeKernel kernel(artifact);
    const DispatchEntry entry = make_entry({c, 0, 0}, &kernel, test.splits);
    EXPECT_EQ(entry.launch_is_fixed, test.fixed);
    if (!entry.launch_is_fixed) continue;
    for (int64_t m = 17; m <= 32; ++m) {
      const LaunchConfig want = make_launch_config(artifact.recipe, c, {m, 40, 5123, m - 16}, test.splits);
      EXPECT_EQ(entry.fixed_launch.splits, want.splits);
      EXPECT_EQ(entry.fixed_launch.k_chunk, want.k_chunk);
      EXPECT_EQ(entry.fixed_launch.workspace_bytes, want.workspace_bytes);
      EXPECT_EQ(entry.fixed_launch.scratch_bytes_per_worker, want.scratch_bytes_per_worker);
    }
  }
  ProblemClass rows;
  rows.op = Op::kArgmax;
  rows.row_lo = 1;
  rows.row_hi = 1024;
  const FakeKernel kernel{Artifact()};
  EXPECT_FALSE(make_entry({rows, 0, 0}, &kernel, 1).launch_is_fixed) << "the length of the rows varies";
}

}  // namespace
}  // namespace lathe
