// Intact cache entries whose code the device refuses. Each is a miss, and is compiled again and replaced.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "remote_fixture.h"
#include "tune_fixture.h"

namespace lathe {
namespace {

using testing::Contains;
using testing::HasSubstr;

class RefusedCode : public Tune {
 protected:
  // Puts the artifact into the stores as that of the request's class. No context has it in memory.
  void leave(const MatmulRequest& m, const Artifact& artifact) {
    Host host(options());
    (void)host.context->cache->replace(key_on(host, m), artifact);
  }
  // The artifact that the compiler makes.
  Artifact compiled(const MatmulRequest& m) {
    Host host(options());
    const DispatchKey key = key_of_request(*host.device, m.desc);
    return *find_or_compile(*host.device, key.problem, choose_plan(*host.device, key).value())
                .value()
                .artifact;
  }
  static Key key_on(const Host& host, const MatmulRequest& m) {
    return choose_plan(*host.device, key_of_request(*host.device, m.desc)).value().key;
  }
  static lathe_status call(Host& host, MatmulRequest& m) {
    return lathe_matmul(host.device.get(), nullptr, &m.desc);
  }

  MatmulRequest m_{7, 40, 33};
};

TEST_F(RefusedCode, IsCompiledAgainAndReplaced) {
  const Artifact good = compiled(m_);
  Artifact junk = good, demanding = good;
  junk.code = "junk";
  demanding.recipe.pointer_alignment = 64;
  for (const auto& [artifact, refusal, cause] :
       {std::tuple{junk, absl::InvalidArgumentError("no ELF object"), "no ELF object"},
        std::tuple{junk, absl::DataLossError("a cubin of another time"), "a cubin of another time"},
        std::tuple{demanding, absl::OkStatus(), "pointers aligned to 64 bytes"}}) {
    leave(m_, artifact);
    Host host(options());
    host.driver->refused_code = "junk";
    host.driver->refusal = refusal;
    EXPECT_EQ(call(host, m_), LATHE_OK) << lathe_last_error();
    EXPECT_EQ(host.statistics().compiles, 1u) << cause;
    EXPECT_EQ(host.driver->launches.load(), 1);
    EXPECT_THAT(host.warnings, Contains(HasSubstr(cause)));
    EXPECT_THAT(host.warnings, Contains(HasSubstr("matmul f32 a=n b=t m=7 n=40 k=33 batch=1 on fake")));
    Host next(options());
    next.driver->refused_code = "junk";
    EXPECT_EQ(call(next, m_), LATHE_OK) << lathe_last_error();
    EXPECT_EQ(next.statistics().compiles, 0u) << "the entry was replaced: " << cause;
    EXPECT_TRUE(next.warnings.empty());
  }
}

TEST_F(RefusedCode, IsAMissIfNothingMayBeCompiled) {
  Artifact junk = compiled(m_);
  junk.code = "junk";
  leave(m_, junk);
  Host host(options());
  host.driver->refused_code = "junk";
  const auto found = prepare_class(*host.device, key_of_request(*host.device, m_.desc), PrepareFor::kNoMiss);
  EXPECT_TRUE(found.status().code() == kMissCode) << found.status();
  EXPECT_THAT(std::string(found.status().message()), HasSubstr("a cubin of another time"));
  EXPECT_EQ(host.statistics().compiles, 0u);
  // Without a compiler, the error has both causes.
  ContextOptions without = options();
  without.compiler_library = "/nowhere/liblathe-compiler.so";
  Host alone(without);
  alone.driver->refused_code = "junk";
  EXPECT_EQ(call(alone, m_), LATHE_NOT_AVAILABLE);
  EXPECT_THAT(lathe_last_error(), HasSubstr("/nowhere/liblathe-compiler.so"));
  EXPECT_THAT(lathe_last_error(), HasSubstr("a cubin of another time"));
}

// If freshly compiled code is refused, every call fails, but it is not compiled again.
TEST_F(RefusedCode, IsNotCompiledTwiceForADevice) {
  const std::string code = compiled(m_).code;
  for (const bool stored : {true, false}) {
    if (!stored) std::filesystem::remove_all(scratch_ + "/cache");
    Host host(options());
    host.driver->refused_code = code;
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(call(host, m_), LATHE_INTERNAL);
      EXPECT_THAT(lathe_last_error(), HasSubstr("the device refuses the kernel's code"));
    }
    EXPECT_EQ(host.statistics().compiles, 1u);
    host.driver->refused_code = "none";
    EXPECT_EQ(call(host, m_), LATHE_OK) << "errors are not kept: " << lathe_last_error();
  }
}

TEST_F(RefusedCode, IsCompiledAgainByOneThreadOnly) {
  Artifact junk = compiled(m_);
  junk.code = "junk";
  leave(m_, junk);
  ContextOptions slow = options();
  slow.compiler_library = fake_compiler("slow");
  Host host(slow);
  host.driver->record = false;
  host.driver->refused_code = "junk";
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      MatmulRequest m(7, 40, 33);
      EXPECT_EQ(call(host, m), LATHE_OK) << lathe_last_error();
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(host.statistics().compiles, 1u);
}

// As if no store had the kernel: the kernel that a plan record names is used before anything is compiled.
TEST_F(RefusedCode, KernelOfAPlanRecordIsUsedInstead) {
  Artifact junk = compiled(m_);
  junk.code = "junk";
  Host host(options());
  const DispatchKey key = key_of_request(*host.device, m_.desc);
  Choice other = choose_by_oracle(*host.device, key).value();
  take_rank(*host.device, key, 1, ChosenBy::kOracle, &other);
  ASSERT_TRUE(find_or_compile(*host.device, key.problem, other).ok());
  PlanRecord record = make_record(*host.device, RecordKind::kPlan, key.problem);
  record.config = other.plan().config;
  record.splits = other.plan().launch.splits;
  ASSERT_TRUE(host.context->cache->write_record(record).ok());
  leave(m_, junk);
  Host next(options());
  next.driver->refused_code = "junk";
  const DispatchEntry* entry = run(next, m_);
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->by, ChosenBy::kRecord);
  EXPECT_TRUE(entry->plan.config == other.plan().config);
}

class RefusedRemotely : public RemoteTest {
 protected:
  struct Hosts : Tune {
    using Tune::Host;
    using Tune::key_of_request;
  };
  // The options of a machine with its own directory.
  ContextOptions on(const std::string& name) const {
    ContextOptions o;
    o.cache_dir = scratch_ + "/" + name;
    o.remote = url();
    return o;
  }
};

// An intact entry on the server, with the right key but code that the compiler did not make.
TEST_F(RefusedRemotely, IsReplacedOnTheServerToo) {
  NEEDS_REDIS();
  MatmulRequest m(7, 40, 33);
  Hosts::Host first(on("first"));
  ASSERT_EQ(lathe_matmul(first.device.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  const DispatchKey wanted = Hosts::key_of_request(*first.device, m.desc);
  const Key key = choose_plan(*first.device, wanted)->key;
  Artifact junk = *first.context->cache->get(key)->artifact;
  junk.code = "junk";
  (void)machine("liar", url())->replace(key, junk);
  for (const auto& [name, compiles, remote_hits] :
       {std::tuple{"second", 1u, 1u}, std::tuple{"second", 0u, 0u}, std::tuple{"third", 0u, 1u}}) {
    Hosts::Host host(on(name));
    host.driver->refused_code = "junk";
    EXPECT_EQ(lathe_matmul(host.device.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
    EXPECT_EQ(host.statistics().compiles, compiles) << name;
    EXPECT_EQ(host.statistics().remote_hits, remote_hits) << name;
  }
}

}  // namespace
}  // namespace lathe
