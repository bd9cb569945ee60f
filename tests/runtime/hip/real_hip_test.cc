// Tests the HIP library of this machine. Without a device, opening "hip:0" must be an error that says so;
// with one, its facts must be complete. Exits with 77 (skipped for CTest) if there is no library.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "runtime/hip/hip_driver.h"

namespace lathe {
namespace {

TEST(RealHip, ReportsTheReasonWithoutADevice) {
  const auto names = enumerate_hip();
  const auto driver = open_hip("hip:0", {});
  const auto facts = query_hip("hip:0", {});
  if (names.ok()) {
    ASSERT_TRUE(facts.ok()) << facts.status();
    EXPECT_EQ(facts->target.backend, Backend::kRocm);
    EXPECT_GT(facts->fact_or("compute_units", 0), 0);
    EXPECT_TRUE(driver.ok()) << driver.status();
    return;
  }
  for (const absl::Status& status : {names.status(), driver.status(), facts.status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()),
                ::testing::StartsWith("hip: not available, because the driver is "));
    // The message must quote the library's own error.
    EXPECT_THAT(std::string(status.message()),
                ::testing::AnyOf(::testing::HasSubstr("hipError"), ::testing::HasSubstr("finds no device")));
  }
}

// HSA's functions must be found through HIP's library, without the name of HSA's file.
TEST(RealHip, FindsHsaThroughHip) {
  for (const char* name : hip_platform().libraries) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
      for (const char* function : {"hsa_init", "hsa_shut_down", "hsa_iterate_agents", "hsa_agent_get_info",
                                   "hsa_agent_iterate_isas", "hsa_isa_get_info_alt", "hipModuleLaunchKernel",
                                   "hipGetStreamDeviceId", "hipDrvPointerGetAttributes"})
        EXPECT_NE(dlsym(handle, function), nullptr) << function;
      return;
    }
  }
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  bool present = false;
  for (const char* name : lathe::hip_platform().libraries)
    present |= dlopen(name, RTLD_NOW | RTLD_LOCAL) != nullptr;
  if (!present) {
    std::printf("SKIPPED: no libamdhip64.so on this machine\n");
    return 77;
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
