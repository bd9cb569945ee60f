#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "runtime/driver.h"

namespace lathe {
namespace {

using ::testing::HasSubstr;

TEST(Registry, HasOneRowPerBackend) {
  std::string prefixes;
  for (const BackendRow& row : backends()) prefixes += std::string(row.prefix) + " ";
  EXPECT_EQ(prefixes, "cpu cuda hip spirv ");
}

TEST(Registry, EnumeratesQueriesAndOpensTheCpu) {
  const BackendRow& cpu = backends()[0];
  auto names = cpu.enumerate();
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_EQ(*names, std::vector<std::string>{"cpu"});
  auto facts = cpu.query("cpu", {});
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->target.backend, Backend::kCpu);
  auto driver = open_driver("cpu", {});
  ASSERT_TRUE(driver.ok()) << driver.status();
  EXPECT_EQ((*driver)->facts().name, facts->name);
  EXPECT_GE((*driver)->workers(), 1);
}

TEST(Registry, UnknownBackendListsTheKnownOnes) {
  auto driver = open_driver("tpu:0", {});
  EXPECT_EQ(driver.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(driver.status().message()), HasSubstr("tpu:0"));
  EXPECT_THAT(std::string(driver.status().message()), HasSubstr("cpu, cuda, hip, spirv"));
  EXPECT_EQ(open_driver("", {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Registry, CpuHasOneDevice) {
  EXPECT_EQ(open_driver("cpu:0", {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(backends()[0].query("cpu:1", {}).status().code(), absl::StatusCode::kInvalidArgument);
}

// query must use the same CPU target as open, even one below the processor's.
TEST(Registry, QueryAndOpenUseTheSameCpuTarget) {
  DriverOptions options;
  options.cpu_target = "no-such-target";
  const absl::Status wrong = backends()[0].query("cpu", options).status();
  EXPECT_FALSE(wrong.ok());
  EXPECT_EQ(wrong, open_driver("cpu", options).status());
#ifdef __x86_64__
  options.cpu_target = "x86-64-avx2";
  const auto queried = backends()[0].query("cpu", options);
  const auto opened = open_driver("cpu", options);
  ASSERT_EQ(queried.status(), opened.status());
  if (!queried.ok()) GTEST_SKIP() << queried.status();  // a processor without AVX2
  EXPECT_EQ(queried->target, (*opened)->facts().target);
  EXPECT_FALSE(queried->target.has("avx512f"));
#endif
}

TEST(Registry, MissingGpuIsUnavailableWithTheReason) {
  for (const char* name : {"cuda:0", "hip:0"}) {
    const absl::Status status = open_driver(name, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("not available, because ")) << name;
  }
}

TEST(Registry, SpirvIsUnavailableBecauseCompileOnly) {
  const BackendRow& spirv = backends()[3];
  for (const absl::Status& status : {spirv.enumerate().status(), spirv.query("spirv:0", {}).status(),
                                     open_driver("spirv:0", {}).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("not available, because SPIR-V is compile-only"));
  }
}

TEST(Registry, RejectsWorkerCountsOutOfRange) {
  for (const int32_t workers : {-1, 1025}) {
    DriverOptions options;
    options.workers = workers;
    const absl::Status status = open_driver("cpu", options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(workers)));
  }
}

}  // namespace
}  // namespace lathe
