#include "dispatch/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "fake_device.h"

namespace lathe {
namespace {

void append(void* user, const char*, const char* text, size_t size) {
  static_cast<std::string*>(user)->append(text, size);
}

bool last_error_says(const std::string& part) {
  return std::string(lathe_last_error()).find(part) != std::string::npos;
}

struct OwnedPlan {
  OwnedPlan(lathe_device* device, const lathe_matmul_desc& desc) {
    EXPECT_EQ(lathe_plan_matmul(device, &desc, &plan), LATHE_OK) << lathe_last_error();
  }
  OwnedPlan(lathe_device* device, const lathe_argmax_desc& desc) {
    EXPECT_EQ(lathe_plan_argmax(device, &desc, &plan), LATHE_OK) << lathe_last_error();
  }
  ~OwnedPlan() { lathe_plan_destroy(plan); }
  Json explain() const {
    std::string text;
    EXPECT_EQ(lathe_plan_explain(plan, append, &text), LATHE_OK) << lathe_last_error();
    return Json::parse(text);
  }
  lathe_plan* plan = nullptr;
};

TEST(Plan, RunsManyTimes) {
  FakeDevice fake;
  MatmulRequest m(40, 48, 33);
  lathe_matmul_desc without_pointers = m.desc;
  without_pointers.a.data = without_pointers.b.data = without_pointers.d.data = nullptr;
  OwnedPlan owned(fake.device.get(), without_pointers);
  EXPECT_EQ(fake.driver->loads.load(), 1);
  MatmulRequest smaller(33, 48, 33);
  ASSERT_EQ(lathe_plan_run_matmul(owned.plan, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  ASSERT_EQ(lathe_plan_run_matmul(owned.plan, nullptr, &smaller.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->last_args.m, 33);
  EXPECT_EQ(fake.driver->launches.load(), 2);
  // A request of the same class without the plan is a hit.
  ASSERT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK);
  EXPECT_EQ(fake.driver->loads.load(), 1);
}

TEST(Plan, ServesAllPointersStridesAlphaAndBatchesOfItsClass) {
  FakeDevice fake;
  MatmulRequest m(2, 48, 33);
  OwnedPlan owned(fake.device.get(), m.desc);
  std::vector<float> d(2 * 3 * 50);
  m.desc.batch = 3;
  m.desc.d.data = d.data();
  m.desc.d.leading_dimension = 50;
  m.desc.d.batch_stride = 100;
  m.desc.epilogue.alpha = 3.0f;
  EXPECT_EQ(lathe_plan_run_matmul(owned.plan, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
}

TEST(Plan, RefusesOtherClassesAndNamesTheField) {
  FakeDevice fake;
  std::vector<float> extra(100000);
  struct {
    const char* says;
    std::function<void(lathe_matmul_desc*)> change;
  } const cases[] = {
      {"n 7, planned 8", [](lathe_matmul_desc* d) { d->n = 7; }},
      {"k 15, planned 16", [](lathe_matmul_desc* d) { d->k = 15; }},
      {"m 5 is not in [4, 4]", [](lathe_matmul_desc* d) { d->m = 5; }},
      {"a.layout COLUMN_MAJOR, planned ROW_MAJOR",
       [](lathe_matmul_desc* d) { d->a.layout = LATHE_COLUMN_MAJOR; }},
      {"b.layout ROW_MAJOR, planned COLUMN_MAJOR",
       [](lathe_matmul_desc* d) { d->b.layout = LATHE_ROW_MAJOR; }},
      {"a.dtype f16, planned f32", [](lathe_matmul_desc* d) { d->a.dtype = d->b.dtype = LATHE_F16; }},
      {"d.dtype bf16, planned f32", [](lathe_matmul_desc* d) { d->d.dtype = LATHE_BF16; }},
      {"activation relu, planned none",
       [](lathe_matmul_desc* d) { d->epilogue.activation = LATHE_ACTIVATION_RELU; }},
      {"determinism run_to_run, planned fast",
       [](lathe_matmul_desc* d) { d->determinism = LATHE_DETERMINISM_RUN_TO_RUN; }},
      {"bias f32, planned none",
       [&](lathe_matmul_desc* d) {
         d->epilogue.bias = extra.data();
         d->epilogue.bias_dtype = LATHE_F32;
       }},
      {"residual f32, planned none",
       [&](lathe_matmul_desc* d) {
         d->epilogue.residual.data = extra.data();
         d->epilogue.residual.dtype = LATHE_F32;
       }},
      {"c (beta and its dtype) f32, planned none",
       [&](lathe_matmul_desc* d) {
         d->c.data = extra.data();
         d->c.dtype = LATHE_F32;
         d->epilogue.beta = 1.0f;
       }},
  };
  MatmulRequest planned(4, 8, 16);
  OwnedPlan owned(fake.device.get(), planned.desc);
  for (const auto& c : cases) {
    std::vector<float> a(5 * 16), b(8 * 16), d(5 * 8);
    MatmulRequest m(4, 8, 16);
    m.desc.a.data = a.data();
    m.desc.b.data = b.data();
    m.desc.d.data = d.data();
    c.change(&m.desc);
    EXPECT_EQ(lathe_plan_run_matmul(owned.plan, nullptr, &m.desc), LATHE_INVALID_ARGUMENT) << c.says;
    EXPECT_TRUE(last_error_says(c.says)) << c.says << "\n" << lathe_last_error();
  }
  ArgmaxRequest argmax(3, 100);
  EXPECT_EQ(lathe_plan_run_argmax(owned.plan, nullptr, &argmax.desc), LATHE_INVALID_ARGUMENT);
  EXPECT_TRUE(last_error_says("op argmax, planned matmul")) << lathe_last_error();
  EXPECT_EQ(fake.driver->launches.load(), 0);

  OwnedPlan rows(fake.device.get(), argmax.desc);
  argmax.desc.values = argmax.values.data();
  EXPECT_EQ(lathe_plan_run_argmax(rows.plan, nullptr, &argmax.desc), LATHE_INVALID_ARGUMENT);
  EXPECT_TRUE(last_error_says("values 1, planned 0")) << lathe_last_error();
  ArgmaxRequest longer(3, 5000);
  EXPECT_EQ(lathe_plan_run_argmax(rows.plan, nullptr, &longer.desc), LATHE_INVALID_ARGUMENT);
  EXPECT_TRUE(last_error_says("n 5000 is not in [1, 1024]")) << lathe_last_error();
}

TEST(Plan, KeepsItsTuning) {
  FakeDevice fake;
  MatmulRequest m(7, 40, 5123);
  lathe_tuning tuning = LATHE_TUNING_INIT;
  tuning.split_k = 7;
  m.desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
  OwnedPlan owned(fake.device.get(), m.desc);
  ASSERT_EQ(lathe_plan_run_matmul(owned.plan, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  m.desc.next = nullptr;
  ASSERT_EQ(lathe_plan_run_matmul(owned.plan, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->last_args.splits, 7);
  tuning.split_k = 6;
  m.desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
  EXPECT_EQ(lathe_plan_run_matmul(owned.plan, nullptr, &m.desc), LATHE_INVALID_ARGUMENT);
  size_t bytes = 0;
  ASSERT_EQ(lathe_plan_workspace_bytes(owned.plan, &bytes), LATHE_OK);
  EXPECT_EQ(bytes, size_t{4 * 7 * 40 * 7 + 2 * 128});
}

TEST(Plan, DescribedDevicePlansWithoutACompiler) {
  FakeDevice fake("/nowhere/liblathe-compiler.so");
  MatmulRequest m(7, 40, 33);
  OwnedPlan owned(fake.described.get(), m.desc);
  const Json explain = owned.explain();
  EXPECT_EQ(explain["launch"].count("splits"), 0u);
  EXPECT_EQ(explain["launch"].count("wanted_splits"), 1u);
  size_t bytes = 0;
  int32_t phases = 0;
  EXPECT_EQ(lathe_plan_workspace_bytes(owned.plan, &bytes), LATHE_NOT_AVAILABLE);
  EXPECT_EQ(lathe_plan_phases(owned.plan, &phases), LATHE_NOT_AVAILABLE);
  EXPECT_EQ(lathe_plan_run_matmul(owned.plan, nullptr, &m.desc), LATHE_NOT_AVAILABLE);
  EXPECT_EQ(fake.statistics().compiles, 0u);
}

TEST(Plan, ExplainsTheChoiceAndAllCandidates) {
  FakeDevice fake;
  MatmulRequest m(7, 40, 33);
  OwnedPlan owned(fake.device.get(), m.desc);
  const Json explain = owned.explain();
  EXPECT_EQ(explain["request"], "matmul f32 a=n b=t m=7 n=40 k=33 batch=1 on fake");
  EXPECT_EQ(explain["class"]["n"], 40);
  EXPECT_EQ(explain["dims"]["m"], 7);
  EXPECT_EQ(explain["workers"], 2);
  EXPECT_EQ(explain["rank"], 1);
  EXPECT_EQ(explain["codegen_id"], std::string(codegen_id()));
  EXPECT_EQ(explain["key"]["fingerprint"].get<std::string>().size(), 32u);
  EXPECT_FALSE(explain["numeric_recipe"].get<std::string>().empty());
  EXPECT_FALSE(explain["facts"]["facts"].empty());
  const size_t legal = explain["legal"];
  ASSERT_GE(legal, 1u);
  EXPECT_EQ(explain["candidates"][0]["config"], explain["config"]);
  ASSERT_FALSE(explain["fields"].empty());
  for (const Json& f : explain["fields"]) {
    EXPECT_EQ(f["value"], explain["config"][f["name"].get<std::string>()]) << f;
    EXPECT_FALSE(f["meaning"].get<std::string>().empty()) << f;
  }
  double last = 0;
  for (size_t i = 0; i < explain["candidates"].size(); ++i) {
    const Json& candidate = explain["candidates"][i];
    EXPECT_EQ(candidate["rank"], i + 1);
    EXPECT_EQ(candidate["legal"].get<bool>(), i < legal);
    if (i < legal) {
      EXPECT_GE(candidate["predicted_seconds"].get<double>(), last);
      last = candidate["predicted_seconds"];
    } else {
      EXPECT_FALSE(candidate["rejection"].get<std::string>().empty());
    }
  }
}

TEST(Plan, DumpsItsStages) {
  FakeDevice fake;
  MatmulRequest m(7, 40, 33);
  OwnedPlan owned(fake.described.get(), m.desc);
  std::vector<std::string> stages;
  const auto collect = [](void* user, const char* name, const char* text, size_t size) {
    static_cast<std::vector<std::string>*>(user)->push_back(std::string(name) + "=" +
                                                            std::string(text, size));
  };
  ASSERT_EQ(lathe_plan_dump(owned.plan, nullptr, collect, &stages), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(stages, (std::vector<std::string>{"00-payload.mlir=payload", "llvm.ll=built-in"}));
  EXPECT_EQ(lathe_plan_dump(owned.plan, nullptr, nullptr, nullptr), LATHE_INVALID_ARGUMENT);
  FakeDevice broken(fake_compiler("fails"));
  OwnedPlan other(broken.described.get(), m.desc);
  EXPECT_EQ(lathe_plan_dump(other.plan, nullptr, collect, &stages), LATHE_COMPILE_FAILED);
}

TEST(Plan, EmptySizesNeedNoKernel) {
  FakeDevice fake("/nowhere/liblathe-compiler.so");
  MatmulRequest m(2, 3, 0);
  OwnedPlan owned(fake.device.get(), m.desc);
  std::fill(m.d.begin(), m.d.end(), 7.0f);
  ASSERT_EQ(lathe_plan_run_matmul(owned.plan, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(m.d, std::vector<float>(6, 0.0f));
  size_t bytes = 1;
  EXPECT_EQ(lathe_plan_workspace_bytes(owned.plan, &bytes), LATHE_OK);
  EXPECT_EQ(bytes, 0u);
  EXPECT_EQ(owned.explain().count("config"), 0u);
  int32_t phases = 0;
  ASSERT_EQ(lathe_plan_phases(owned.plan, &phases), LATHE_OK);
  EXPECT_EQ(phases, 1);
  std::fill(m.d.begin(), m.d.end(), 7.0f);
  EXPECT_EQ(lathe_plan_run_matmul_slice(owned.plan, &m.desc, 0, 1, 2), LATHE_OK);
  EXPECT_EQ(m.d, std::vector<float>(6, 7.0f)) << "worker 0 writes it";
  EXPECT_EQ(lathe_plan_run_matmul_slice(owned.plan, &m.desc, 0, 0, 2), LATHE_OK);
  EXPECT_EQ(m.d, std::vector<float>(6, 0.0f));
}

TEST(Plan, EmptyArgmaxPlansItsBucket) {
  FakeDevice fake;
  ArgmaxRequest a(3, 100);
  lathe_argmax_desc nothing = a.desc;
  nothing.rows = nothing.n = 0;
  OwnedPlan owned(fake.device.get(), nothing);
  EXPECT_EQ(lathe_plan_run_argmax(owned.plan, nullptr, &nothing), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->launches.load(), 0);
  EXPECT_EQ(lathe_plan_run_argmax(owned.plan, nullptr, &a.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->launches.load(), 1);
}

TEST(Plan, ZeroRowsRunOnEveryPlan) {
  FakeDevice fake;
  MatmulRequest m(7, 40, 33);
  OwnedPlan owned(fake.device.get(), m.desc);
  m.desc.m = 0;
  EXPECT_EQ(lathe_plan_run_matmul(owned.plan, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->launches.load(), 0);
}

TEST(Plan, RunsInSlices) {
  FakeDevice fake;
  MatmulRequest m(7, 40, 5123);
  lathe_tuning tuning = LATHE_TUNING_INIT;
  tuning.split_k = 3;
  m.desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
  OwnedPlan owned(fake.device.get(), m.desc);
  int32_t phases = 0;
  ASSERT_EQ(lathe_plan_phases(owned.plan, &phases), LATHE_OK);
  EXPECT_EQ(phases, 2) << "the splits, then their merge";
  size_t bytes = 0;
  ASSERT_EQ(lathe_plan_slice_workspace_bytes(owned.plan, 4, &bytes), LATHE_OK);
  EXPECT_EQ(bytes, size_t{4 * 7 * 40 * 3 + 4 * 128});
  EXPECT_EQ(lathe_plan_run_matmul_slice(owned.plan, &m.desc, 0, 0, 4), LATHE_INVALID_ARGUMENT)
      << "no workspace";
  EXPECT_TRUE(last_error_says("workspace")) << lathe_last_error();

  std::vector<char> memory(bytes + 64);
  lathe_workspace workspace = LATHE_WORKSPACE_INIT;
  workspace.data = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  workspace.bytes = bytes;
  m.desc.next = reinterpret_cast<const lathe_chain*>(&workspace);
  ASSERT_EQ(lathe_plan_run_matmul_slice(owned.plan, &m.desc, 1, 3, 4), LATHE_OK) << lathe_last_error();
  ASSERT_EQ(fake.driver->slices.size(), 1u);
  EXPECT_EQ(fake.driver->slices[0].phase, 1);
  EXPECT_EQ(fake.driver->slices[0].worker, 3);
  EXPECT_EQ(fake.driver->slices[0].workers, 4);
  EXPECT_EQ(fake.driver->last.workspace, workspace.data);

  const int32_t bad[][3] = {{-1, 0, 4}, {2, 0, 4}, {0, -1, 4}, {0, 4, 4}, {0, 0, 0}};
  for (const auto& b : bad) {
    EXPECT_EQ(lathe_plan_run_matmul_slice(owned.plan, &m.desc, b[0], b[1], b[2]), LATHE_INVALID_ARGUMENT)
        << b[0] << " " << b[1] << " " << b[2];
  }
  EXPECT_EQ(lathe_plan_slice_workspace_bytes(owned.plan, 0, &bytes), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_plan_slice_workspace_bytes(owned.plan, 1025, &bytes), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_plan_run_matmul_slice(owned.plan, &m.desc, 0, 0, 1025), LATHE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(lathe_last_error()).find("1024"), std::string::npos) << lathe_last_error();
}

TEST(Plan, PolicyErrorRefusesAMiss) {
  FakeDevice fake;
  MatmulRequest m(7, 40, 33);
  m.desc.miss_policy = LATHE_MISS_ERROR;
  lathe_plan* plan = nullptr;
  EXPECT_EQ(lathe_plan_matmul(fake.device.get(), &m.desc, &plan), LATHE_MISS);
  EXPECT_EQ(plan, nullptr);
}

// Removes what explain cannot know without a loaded kernel.
Json as_of_choice(Json explained) {
  explained["launch"] = {{"wanted_splits", explained["launch"]["wanted_splits"]}};
  return explained;
}

TEST(Plan, ExplainsARequestWithoutPreparingIt) {
  FakeDevice fake;
  MatmulRequest m(7, 40, 33);
  m.desc.a.data = m.desc.b.data = m.desc.d.data = nullptr;
  m.desc.miss_policy = LATHE_MISS_ERROR;
  ArgmaxRequest a(3, 100);
  std::string text, argmax, loaded;
  ASSERT_EQ(lathe_explain_matmul(fake.device.get(), &m.desc, append, &text), LATHE_OK) << lathe_last_error();
  ASSERT_EQ(lathe_explain_argmax(fake.device.get(), &a.desc, append, &argmax), LATHE_OK)
      << lathe_last_error();
  EXPECT_EQ(fake.driver->loads.load(), 0);
  MatmulRequest whole(7, 40, 33);
  EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &whole.desc), LATHE_OK);
  EXPECT_EQ(fake.driver->loads.load(), 1);
  m.desc.miss_policy = LATHE_MISS_DEFAULT;
  EXPECT_EQ(Json::parse(text)["launch"].size(), 1u);
  // Without a kernel, explain gives the same as a plan except for the launch. With a loaded kernel it gives the same.
  const Json planned = OwnedPlan(fake.device.get(), m.desc).explain();
  EXPECT_GT(planned["launch"].size(), 1u);
  EXPECT_EQ(Json::parse(text), as_of_choice(planned));
  ASSERT_EQ(lathe_explain_matmul(fake.device.get(), &m.desc, append, &loaded), LATHE_OK);
  EXPECT_EQ(Json::parse(loaded), planned);
  EXPECT_EQ(Json::parse(argmax), as_of_choice(OwnedPlan(fake.device.get(), a.desc).explain()));
}

// 4 slots of 4 experts: the kernel of a group of one row.
TEST(Plan, OfAGroupedProductIsThatOfItsMeanGroup) {
  FakeDevice fake;
  lathe_grouped_matmul_desc desc = LATHE_GROUPED_MATMUL_DESC_INIT;
  desc.grouping = LATHE_GROUPING_INDEXED;
  desc.m = 2, desc.n = 40, desc.k = 33, desc.groups = 4, desc.used = 2;
  desc.a.dtype = desc.b.dtype = desc.d.dtype = LATHE_F32;
  desc.b.layout = LATHE_COLUMN_MAJOR;
  desc.b.batch_stride = 40 * 33;
  desc.d.leading_dimension = 80, desc.d.batch_stride = 40;
  MatmulRequest m(1, 40, 33);
  m.desc.b.layout = LATHE_COLUMN_MAJOR;
  m.desc.b.leading_dimension = 33;
  std::string text, single;
  ASSERT_EQ(lathe_explain_grouped_matmul(fake.device.get(), &desc, append, &text), LATHE_OK)
      << lathe_last_error();
  ASSERT_EQ(lathe_explain_matmul(fake.device.get(), &m.desc, append, &single), LATHE_OK)
      << lathe_last_error();
  EXPECT_EQ(Json::parse(text)["key"], Json::parse(single)["key"]);
  desc.m = 60;  // 30 rows, whose places are listed
  text.clear();
  ASSERT_EQ(lathe_explain_grouped_matmul(fake.device.get(), &desc, append, &text), LATHE_OK)
      << lathe_last_error();
  const Json of_many = Json::parse(text);
  EXPECT_EQ(of_many["class"]["rows"], "indexed");
  EXPECT_EQ(of_many["predicted_seconds"], of_many["candidates"][0]["predicted_seconds"]);
  desc.m = 2;
  EXPECT_EQ(fake.driver->loads.load(), 0);
  lathe_plan* plan = nullptr;
  ASSERT_EQ(lathe_plan_grouped_matmul(fake.device.get(), &desc, &plan), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->loads.load(), 1);
  lathe_plan_destroy(plan);
  EXPECT_EQ(lathe_plan_grouped_matmul(fake.device.get(), nullptr, &plan), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_explain_grouped_matmul(nullptr, &desc, append, &text), LATHE_INVALID_ARGUMENT);
}

// The classes are the same, because the mean groups are. Sixteen times as many groups take sixteen times as long, apart
// from the launch. Eight groups run at the same time, each on an eighth of the device. Two groups have all of it, and
// take no less than one wave of tiles.
TEST(Plan, PredictsAllGroupsOfAGpu) {
  FakeDevice fake(fake_compiler(), MissPolicy::kBlock, "h200.json");
  const auto explained = [&](int64_t tokens, int64_t groups) {
    lathe_grouped_matmul_desc desc = LATHE_GROUPED_MATMUL_DESC_INIT;
    desc.grouping = LATHE_GROUPING_INDEXED;
    desc.m = tokens, desc.n = 2048, desc.k = 768, desc.groups = groups, desc.used = 2;
    desc.a.dtype = desc.b.dtype = desc.d.dtype = LATHE_BF16;
    desc.b.layout = LATHE_COLUMN_MAJOR;
    desc.b.batch_stride = 2048 * 768;
    desc.d.leading_dimension = 4096, desc.d.batch_stride = 2048;
    std::string text;
    EXPECT_EQ(lathe_explain_grouped_matmul(fake.device.get(), &desc, append, &text), LATHE_OK)
        << lathe_last_error();
    return Json::parse(text);
  };
  const double launch = fake.device->facts.facts.at("launch_seconds").value;
  const auto seconds = [&](const Json& of) { return of["predicted_seconds"].get<double>() - launch; };
  const Json two = explained(24, 2), eight = explained(96, 8), many = explained(1536, 128);
  ASSERT_EQ(two["class"], many["class"]);
  ASSERT_EQ(eight["class"], many["class"]);
  const Json& config = two["candidates"][0]["config"];
  const auto whole = [](int64_t size, const Json& tile) {
    return std::ceil(double(size) / tile.get<double>());
  };
  const double tiles = whole(24, config["tile_m"]) * whole(2048, config["tile_n"]);
  const double waves = std::ceil(tiles / (132.0 / 8));
  EXPECT_GT(waves, 1);
  EXPECT_DOUBLE_EQ(seconds(two), seconds(eight) * std::max(2.0 / 8, 1 / waves));
  EXPECT_NEAR(seconds(many), 16 * seconds(eight), 1e-12);
  EXPECT_NEAR(seconds(many["candidates"][1]), 16 * seconds(eight["candidates"][1]), 1e-12);
  // Fewer slots than groups: the others have no rows. Here each slot is a group.
  const Json sparse = explained(8, 128), dense = explained(8, 16);
  ASSERT_EQ(sparse["class"], dense["class"]);
  EXPECT_DOUBLE_EQ(seconds(sparse), seconds(dense));
  EXPECT_GT(seconds(dense), seconds(explained(4, 8)));
}

TEST(Plan, ExplainsARequestThatNeedsNoKernel) {
  FakeDevice fake;
  MatmulRequest m(7, 0, 33);
  std::string text;
  ASSERT_EQ(lathe_explain_matmul(fake.device.get(), &m.desc, append, &text), LATHE_OK) << lathe_last_error();
  EXPECT_FALSE(Json::parse(text).contains("config"));
  EXPECT_EQ(lathe_explain_matmul(fake.device.get(), nullptr, append, &text), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_explain_matmul(nullptr, &m.desc, append, &text), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_explain_matmul(fake.device.get(), &m.desc, nullptr, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_TRUE(last_error_says("lathe_explain_matmul: text is NULL")) << lathe_last_error();
}

TEST(Plan, RefusesNullArguments) {
  FakeDevice fake;
  MatmulRequest m(7, 40, 33);
  ArgmaxRequest a(3, 100);
  lathe_plan* plan = nullptr;
  size_t bytes = 0;
  int32_t phases = 0;
  EXPECT_EQ(lathe_plan_matmul(nullptr, &m.desc, &plan), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_plan_matmul(fake.device.get(), nullptr, &plan), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_plan_matmul(fake.device.get(), &m.desc, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_plan_argmax(nullptr, &a.desc, &plan), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_plan_run_matmul(nullptr, nullptr, &m.desc), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_plan_run_argmax(nullptr, nullptr, &a.desc), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_plan_run_matmul_slice(nullptr, &m.desc, 0, 0, 1), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_plan_run_argmax_slice(nullptr, &a.desc, 0, 0, 1), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_plan_workspace_bytes(nullptr, &bytes), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_plan_slice_workspace_bytes(nullptr, 1, &bytes), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_plan_phases(nullptr, &phases), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_plan_explain(nullptr, append, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_plan_dump(nullptr, nullptr, append, nullptr), LATHE_INVALID_ARGUMENT);
  lathe_plan_destroy(nullptr);
}

}  // namespace
}  // namespace lathe
