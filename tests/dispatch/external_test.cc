// Requests that external libraries should run, on a fake driver that claims to have a library.
#include <gtest/gtest.h>

#include "dispatch/dispatch.h"
#include "fake_device.h"

namespace lathe {
namespace {

lathe_external external_of(lathe_external_use use) {
  lathe_external e = LATHE_EXTERNAL_INIT;
  e.use = use;
  e.which = use == LATHE_EXTERNAL_OFF ? LATHE_EXTERNAL_ANY : LATHE_EXTERNAL_OPENBLAS;
  return e;
}

struct Asked {
  explicit Asked(lathe_external_use use) : external(external_of(use)) {
    request.desc.next = reinterpret_cast<const lathe_chain*>(&external);
  }
  lathe_status run(FakeDevice& fake) { return lathe_matmul(fake.device.get(), nullptr, &request.desc); }
  lathe_external external;
  MatmulRequest request{40, 48, 333};
};

size_t warnings(const FakeDevice& fake) {
  size_t count = 0;
  for (const std::string& line : fake.log) count += line.find("Lathe's own kernel ") != std::string::npos;
  return count;
}

TEST(ExternalRequest, NoLibraryIsSearchedUnlessAsked) {
  FakeDevice fake;
  MatmulRequest m(40, 48, 333);
  ASSERT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->searches.load(), 0);
  EXPECT_EQ(fake.driver->external_launches.load(), 0);
}

TEST(ExternalRequest, HasItsOwnEntry) {
  FakeDevice fake;
  Asked prefer(LATHE_EXTERNAL_PREFER), off(LATHE_EXTERNAL_OFF);
  ASSERT_EQ(prefer.run(fake), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->external_launches.load(), 1);
  ASSERT_EQ(off.run(fake), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->external_launches.load(), 1);
  EXPECT_EQ(fake.device->table.size(), 2u);
  ASSERT_EQ(prefer.run(fake), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->external_launches.load(), 2);
  EXPECT_EQ(fake.device->table.size(), 2u);
}

TEST(ExternalRequest, AbsentLibraryFailsOnlyIfRequired) {
  FakeDevice fake;
  fake.driver->absent_openblas = "libopenblas.so.0: no such file";
  Asked prefer(LATHE_EXTERNAL_PREFER), require(LATHE_EXTERNAL_REQUIRE);
  EXPECT_EQ(prefer.run(fake), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->external_launches.load(), 0);
  EXPECT_EQ(require.run(fake), LATHE_UNSUPPORTED);
  EXPECT_NE(std::string(lathe_last_error()).find("no such file"), std::string::npos) << lathe_last_error();
}

// The library was present when the plan was made, or on the machine that made the artifact.
TEST(ExternalRequest, LibraryThatFailsToLoadFailsOnlyIfRequired) {
  FakeDevice fake;
  fake.driver->external_load_error = absl::UnavailableError("libopenblas.so.0 has no cblas_sgemm");
  Asked prefer(LATHE_EXTERNAL_PREFER), require(LATHE_EXTERNAL_REQUIRE);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(prefer.run(fake), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->external_launches.load(), 0);
  EXPECT_EQ(fake.driver->launches.load(), 2);
  EXPECT_EQ(warnings(fake), 1u);
  EXPECT_EQ(require.run(fake), LATHE_NOT_AVAILABLE);
  EXPECT_NE(std::string(lathe_last_error()).find("has no cblas_sgemm"), std::string::npos)
      << lathe_last_error();
}

TEST(ExternalRequest, LibraryThatFailsToLaunchFailsOnlyIfRequired) {
  FakeDevice fake;
  fake.driver->external_launch_error = absl::UnavailableError("status 13");
  Asked prefer(LATHE_EXTERNAL_PREFER), require(LATHE_EXTERNAL_REQUIRE);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(prefer.run(fake), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->external_launches.load(), 3);
  EXPECT_EQ(fake.driver->launches.load(), 6);
  EXPECT_EQ(warnings(fake), 1u);
  EXPECT_EQ(require.run(fake), LATHE_NOT_AVAILABLE);
  // If the failed launch may have overwritten an input, no other kernel runs.
  fake.driver->external_launch_error = absl::InternalError("half written");
  EXPECT_EQ(prefer.run(fake), LATHE_INTERNAL);
}

// The library's plan needs no workspace, so the caller's may be too small for Lathe's kernel.
TEST(ExternalRequest, LathesKernelDoesNotUseAWorkspaceThatIsTooSmall) {
  FakeDevice fake;
  fake.driver->external_launch_error = absl::UnavailableError("status 13");
  Asked prefer(LATHE_EXTERNAL_PREFER);
  alignas(64) static char memory[64];
  lathe_workspace workspace = LATHE_WORKSPACE_INIT;
  workspace.data = memory;
  workspace.bytes = sizeof(memory);
  prefer.external.next = reinterpret_cast<const lathe_chain*>(&workspace);
  EXPECT_EQ(prefer.run(fake), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->launches.load(), 2);
  EXPECT_EQ(fake.driver->last.workspace, nullptr) << "it needs more than 64 bytes";
}

TEST(ExternalRequest, ChecksTheChain) {
  FakeDevice fake;
  Asked bad(LATHE_EXTERNAL_PREFER);
  bad.external.struct_size -= 1;
  EXPECT_EQ(bad.run(fake), LATHE_INVALID_ARGUMENT);
  bad.external = external_of(static_cast<lathe_external_use>(5));
  EXPECT_EQ(bad.run(fake), LATHE_INVALID_ARGUMENT);
  bad.external = external_of(LATHE_EXTERNAL_OFF);
  bad.external.which = LATHE_EXTERNAL_ONEDNN;
  EXPECT_EQ(bad.run(fake), LATHE_INVALID_ARGUMENT);
  lathe_external again = external_of(LATHE_EXTERNAL_ALLOW);
  bad.external = again;
  bad.external.next = reinterpret_cast<const lathe_chain*>(&again);
  EXPECT_EQ(bad.run(fake), LATHE_INVALID_ARGUMENT);
}

// A plan keeps the choice that it was made with.
TEST(ExternalRequest, PlanKeepsItsChoice) {
  FakeDevice fake;
  Asked prefer(LATHE_EXTERNAL_PREFER), off(LATHE_EXTERNAL_OFF);
  lathe_plan* plan = nullptr;
  ASSERT_EQ(lathe_plan_matmul(fake.device.get(), &prefer.request.desc, &plan), LATHE_OK)
      << lathe_last_error();
  EXPECT_EQ(lathe_plan_run_matmul(plan, nullptr, &prefer.request.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->external_launches.load(), 1);
  EXPECT_EQ(lathe_plan_run_matmul(plan, nullptr, &off.request.desc), LATHE_INVALID_ARGUMENT);
  off.request.desc.next = nullptr;
  EXPECT_EQ(lathe_plan_run_matmul(plan, nullptr, &off.request.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->external_launches.load(), 2);
  lathe_plan_destroy(plan);
}

}  // namespace
}  // namespace lathe
