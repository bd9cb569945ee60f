// Contexts that share one cache directory, with fake devices; and which candidates their classes took.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "dispatch/plan.h"
#include "dispatch/plan_records.h"
#include "dispatch/prepare.h"
#include "fake_device.h"

namespace lathe {

class Tune : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "lathe_tune_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    scratch_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(scratch_); }

  // A context with the cache directory, a device with given facts, and a log.
  struct Host {
    explicit Host(ContextOptions options, const std::string& facts_name = "ryzen-7-5800u.json") {
      if (options.compiler_library.empty()) options.compiler_library = fake_compiler();
      options.workers = 2;
      options.log_level = LogLevel::kDebug;
      options.log_sink = [this](LogLevel level, const std::string& message) {
        const std::lock_guard<std::mutex> lock(mutex);
        if (level <= LogLevel::kWarning) warnings.push_back(message);
      };
      context = std::make_unique<lathe_context>(std::move(options));
      facts = load_facts(facts_file(facts_name)).value();
      open();
    }
    void open() {
      device = nullptr;
      auto fake = std::make_unique<FakeDriver>(facts);
      driver = fake.get();
      device = std::make_unique<lathe_device>(*context, "fake", facts, std::move(fake));
    }
    lathe_statistics statistics() const {
      lathe_statistics s = LATHE_STATISTICS_INIT;
      read_statistics(*context, &s);
      return s;
    }
    std::mutex mutex;
    std::vector<std::string> warnings;  // under mutex if another thread may log
    std::unique_ptr<lathe_context> context;
    DeviceFacts facts;
    FakeDriver* driver = nullptr;
    std::unique_ptr<lathe_device> device;
  };
  ContextOptions options() const {
    ContextOptions o;
    o.cache_dir = scratch_ + "/cache";
    return o;
  }
  static DispatchKey key_of_request(const lathe_device& device, const lathe_matmul_desc& desc) {
    Request request;
    EXPECT_TRUE(read_matmul(&desc, Purpose::kPlan, device.request_context(), nullptr, &request).ok());
    return request.key;
  }
  // Writes a tuning record of the class whose winner is candidate `rank` of the oracle.
  static PlanRecord winner(const lathe_device& device, const DispatchKey& key, size_t rank) {
    const Choice oracle = choose_by_oracle(device, key).value();
    PlanRecord record = make_record(device, RecordKind::kTuned, key.problem);
    const Plan& plan = oracle.answer.ranked[rank].plan;
    record.config = plan.config;
    record.splits = plan.launch.splits;
    record.measured = {
        {oracle.answer.ranked[0].plan.config, oracle.answer.ranked[0].plan.launch.splits, 1e-5, 2e-5},
        {plan.config, plan.launch.splits, 1.5e-5, 1e-5}};
    return record;
  }
  static const DispatchEntry* run(Host& host, const MatmulRequest& m) {
    EXPECT_EQ(lathe_matmul(host.device.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
    return host.device->table.find(key_of_request(*host.device, m.desc));
  }
  // The rank of the candidate that the class took.
  static size_t rank_of(const Host& host, const DispatchEntry* entry) {
    const Choice choice = choice_of(*host.device, *entry).value();
    EXPECT_TRUE(choice.plan().config == entry->plan.config);
    EXPECT_EQ(choice.plan().launch.splits, entry->plan.launch.splits);
    return choice.rank;
  }
  static Json explain(Host& host, const MatmulRequest& m) {
    lathe_plan* plan = nullptr;
    EXPECT_EQ(lathe_plan_matmul(host.device.get(), &m.desc, &plan), LATHE_OK) << lathe_last_error();
    const Json json = explain_json(*plan).value();
    lathe_plan_destroy(plan);
    return json;
  }

  std::string scratch_;
};

}  // namespace lathe
