// Plan records from other machines and other releases: when they serve, and when they are replaced.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <thread>

#include "tune_fixture.h"

namespace lathe {
namespace {

using ::testing::HasSubstr;

class PlanRecords : public Tune {
 protected:
  // Compiles the class on one machine (the maker), which stores its artifact and its plan record.
  void make() {
    maker_ = std::make_unique<Host>(options());
    const DispatchEntry* entry = run(*maker_, m_);
    ASSERT_NE(entry, nullptr);
    key_ = entry->key;
    config_ = entry->plan.config;
  }
  bool names(const RankedPlan& r) const { return r.plan.config == config_; }

  // Changes one of the host's facts so that its oracle chooses another plan. The maker's plan stays legal and is
  // predicted to take `least` to `most` times as long as the host's.
  bool differ(Host* host, double least, double most) {
    const std::map<std::string, Fact> facts = maker_->facts.facts;
    for (const auto& [name, fact] : facts)
      for (const double factor : {0.9, 1.1, 0.75, 1.5, 0.5, 2.0, 0.25, 4.0, 0.1, 10.0, 0.01, 100.0}) {
        host->facts = maker_->facts;
        host->facts.facts[name].value *= factor;
        host->open();
        wanted_ = choose_by_oracle(*host->device, key_).value();
        const std::vector<RankedPlan>& ranked = wanted_.answer.ranked;
        const auto end = ranked.begin() + static_cast<ptrdiff_t>(wanted_.answer.legal);
        const auto found = std::find_if(ranked.begin(), end, [&](const auto& r) { return names(r); });
        if (found == end || found == ranked.begin()) continue;
        const double ratio = found->plan.predicted_seconds / ranked[0].plan.predicted_seconds;
        if (ratio >= least && ratio <= most) return true;
      }
    return false;
  }
  // Makes the maker's record look as if another build of the oracle had written it.
  void make_outdated() {
    PlanRecord record = recorded(*maker_);
    record.oracle = "another build";
    ASSERT_TRUE(maker_->context->cache->write_record(record).ok());
  }
  PlanRecord recorded(Host& host) {
    const PlanRecord asked = make_record(*host.device, RecordKind::kPlan, key_.problem);
    return host.context->cache->read_record(asked.kind, key_of(asked)).value();
  }
  static bool waits_for(const std::function<bool()>& what) {
    for (int i = 0; i < 3000 && !what(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return what();
  }
  std::unique_ptr<Host> like(const Host& host, ContextOptions o) {
    auto again = std::make_unique<Host>(std::move(o));
    again->facts = host.facts;
    again->open();
    return again;
  }

  const MatmulRequest m_{300, 500, 700};
  std::unique_ptr<Host> maker_;
  DispatchKey key_;
  CompileConfig config_;  // of the maker's plan
  Choice wanted_;         // of the host's oracle
};

// A requested external library runs although a plan record names another kernel. It leaves no plan record, so it
// does not serve requests that did not ask for it.
TEST_F(PlanRecords, DoNotAffectExternalLibraries) {
  MatmulRequest m(40, 48, 333);
  const auto library_does_it = [&](ExternalUse use) {
    ContextOptions o = options();
    o.external = {use, use == ExternalUse::kOff ? ExternalId::kAny : ExternalId::kOpenBlas};
    Host host(o);
    EXPECT_EQ(lathe_matmul(host.device.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
    return host.driver->external_launches.load() == 1;
  };
  EXPECT_FALSE(library_does_it(ExternalUse::kOff));
  EXPECT_TRUE(library_does_it(ExternalUse::kPrefer));
  std::filesystem::remove_all(scratch_ + "/cache");
  EXPECT_TRUE(library_does_it(ExternalUse::kPrefer));
  for (const auto& file : std::filesystem::directory_iterator(scratch_ + "/cache"))
    EXPECT_NE(file.path().extension(), ".record");
  EXPECT_FALSE(library_does_it(ExternalUse::kOff));
}

// An artifact of another machine serves if the oracle here chooses another plan of about the same predicted time.
TEST_F(PlanRecords, ServeADeviceWithSlightlyDifferentFacts) {
  make();
  Host other(options());
  ASSERT_TRUE(differ(&other, 1, 1 + kRecordTolerance));
  const DispatchEntry* entry = run(other, m_);
  EXPECT_EQ(entry->by, ChosenBy::kRecord);
  EXPECT_EQ(explain(other, m_)["chosen_by"], "plan record");
  EXPECT_TRUE(entry->plan.config == config_);
  // Also if nothing may be compiled, and in a warm-up.
  for (const PrepareFor purpose : {PrepareFor::kNoMiss, PrepareFor::kLater}) {
    other.open();
    const auto found = prepare_class(*other.device, key_, purpose);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->entry->by, ChosenBy::kRecord);
  }
  EXPECT_EQ(other.context->background.waiting(), 0u);
  EXPECT_EQ(other.statistics().compiles, 0u);
  // If the stores have the kernel of the oracle's choice, that one is used.
  ASSERT_TRUE(find_or_compile(*other.device, key_.problem, wanted_).ok());
  other.open();
  EXPECT_EQ(run(other, m_)->by, ChosenBy::kOracle);
  // A record without its artifact does not serve.
  for (const auto& file : std::filesystem::directory_iterator(scratch_ + "/cache"))
    if (file.path().extension() == ".lathe") std::filesystem::remove(file);
  const auto alone = like(other, options());
  EXPECT_EQ(run(*alone, m_)->by, ChosenBy::kOracle);
  EXPECT_EQ(alone->statistics().compiles, 1u);
}

// After an upgrade no call waits. This process keeps its dispatch entries, and the next one has the new choice.
TEST_F(PlanRecords, OfAnotherBuildServeCallsAndAreRefreshedInTheBackground) {
  make();
  make_outdated();
  Host upgraded(options());
  ASSERT_TRUE(differ(&upgraded, 1, 1 + kRecordTolerance));
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back([&] { run(upgraded, m_); });
  for (std::thread& caller : callers) caller.join();
  const DispatchEntry* entry = run(upgraded, m_);
  EXPECT_EQ(entry->by, ChosenBy::kRecord);
  EXPECT_TRUE(entry->plan.config == config_);
  ASSERT_TRUE(waits_for([&] { return upgraded.statistics().background_compiles == 1; }));
  EXPECT_EQ(upgraded.statistics().compiles, 1u) << "compiled once";
  EXPECT_EQ(run(upgraded, m_), entry);
  const PlanRecord record = recorded(upgraded);
  EXPECT_TRUE(record.config == wanted_.plan().config);
  EXPECT_EQ(record.oracle, make_record(*upgraded.device, RecordKind::kPlan, key_.problem).oracle);
  const auto next = like(upgraded, options());
  EXPECT_EQ(run(*next, m_)->by, ChosenBy::kOracle);
  EXPECT_EQ(next->statistics().compiles, 0u);
  EXPECT_THAT(upgraded.warnings, testing::IsEmpty());
  // The maker still uses its own artifact, although the record was overwritten.
  EXPECT_EQ(run(*like(*maker_, options()), m_)->by, ChosenBy::kOracle);
}

// A plan of another machine that is much slower here serves calls, but is refreshed as an outdated one.
TEST_F(PlanRecords, ThatAreMuchSlowerHereAreRefreshed) {
  make();
  Host other(options());
  ASSERT_TRUE(differ(&other, 1 + 1.5 * kRecordTolerance, 1e9));
  EXPECT_EQ(run(other, m_)->by, ChosenBy::kRecord);
  ASSERT_TRUE(waits_for([&] { return other.statistics().background_compiles == 1; }));
  EXPECT_EQ(run(*like(other, options()), m_)->by, ChosenBy::kOracle);
}

// While any thread or process compiles the new choice, no call waits for it.
TEST_F(PlanRecords, OfAnotherBuildServeWhileTheNewChoiceIsCompiled) {
  make();
  make_outdated();
  Host upgraded(options());
  ASSERT_TRUE(differ(&upgraded, 1, 1 + kRecordTolerance));
  std::promise<void> began, may_end;
  std::thread compiling([&, may = may_end.get_future()]() mutable {
    const auto result =
        upgraded.context->cache->get_or_create(wanted_.key, [&]() -> absl::StatusOr<Artifact> {
          began.set_value();
          may.wait();
          return absl::AbortedError("given up");
        });
    EXPECT_THAT(std::string(result.status().message()), HasSubstr("given up"));
  });
  began.get_future().wait();
  // `another` stands for another process, which finds the key locked. `beside` is another device of this process.
  const auto another = like(upgraded, options());
  lathe_device beside(*upgraded.context, "beside", upgraded.facts,
                      std::make_unique<FakeDriver>(upgraded.facts));
  auto calls = std::async(std::launch::async, [&] {
    EXPECT_EQ(lathe_matmul(&beside, nullptr, &m_.desc), LATHE_OK) << lathe_last_error();
    return run(upgraded, m_)->by == ChosenBy::kRecord && run(*another, m_)->by == ChosenBy::kRecord &&
           beside.table.find(key_)->by == ChosenBy::kRecord;
  });
  EXPECT_EQ(calls.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  may_end.set_value();
  compiling.join();
  EXPECT_TRUE(calls.get());
}

// A warm-up compiles the new choice at once. If that fails, the recorded kernel serves.
TEST_F(PlanRecords, OfAnotherBuildServeWarmUpsOnlyIfCompilingFails) {
  make();
  make_outdated();
  Host upgraded(options());
  ASSERT_TRUE(differ(&upgraded, 1, 1 + kRecordTolerance));
  ContextOptions broken = options();
  broken.compiler_library = fake_compiler("fails");
  for (ContextOptions o : {broken, options()}) {
    if (o.compiler_library.empty()) o.compiler_library = "/nonexistent/compiler.so";
    const auto host = like(upgraded, o);
    const auto prepared = prepare_class(*host->device, key_, PrepareFor::kLater);
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    EXPECT_EQ(prepared->entry->by, ChosenBy::kRecord);
    // A call uses it too, and a failure in the background is logged.
    host->open();
    EXPECT_EQ(run(*host, m_)->by, ChosenBy::kRecord);
    EXPECT_TRUE(waits_for([&] {
      const std::lock_guard<std::mutex> lock(host->mutex);
      return host->warnings.size() == 1;
    }));
    EXPECT_THAT(host->warnings[0], HasSubstr("stays with the recorded kernel"));
  }
  const auto host = like(upgraded, options());
  EXPECT_EQ(prepare_class(*host->device, key_, PrepareFor::kNoMiss)->entry->by, ChosenBy::kRecord);
  EXPECT_EQ(host->statistics().compiles, 0u);
  host->open();
  const auto prepared = prepare_class(*host->device, key_, PrepareFor::kLater);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->entry->by, ChosenBy::kOracle);
  EXPECT_EQ(host->statistics().compiles, 1u);
  EXPECT_EQ(host->statistics().background_compiles, 0u);
  EXPECT_TRUE(recorded(*host).config == wanted_.plan().config);
}

// Without a background queue the new choice is not compiled, and no call waits.
TEST_F(PlanRecords, OfAnotherBuildServeIfTheQueueIsFull) {
  make();
  make_outdated();
  ContextOptions o = options();
  o.most_waiting = 0;
  Host upgraded(o);
  ASSERT_TRUE(differ(&upgraded, 1, 1 + kRecordTolerance));
  EXPECT_EQ(run(upgraded, m_)->by, ChosenBy::kRecord);
  upgraded.open();
  EXPECT_EQ(upgraded.statistics().compiles, 0u);
}

}  // namespace
}  // namespace lathe
