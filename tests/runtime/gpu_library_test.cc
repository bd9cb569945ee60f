#include "runtime/gpu_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

GpuApi fake(const char* library) {
  return {"fake", {"libabsent_gpu.so.1", library}, "fakeInit", "fakeCount", "fakeName"};
}

std::string message(const absl::Status& status) { return std::string(status.message()); }

TEST(GpuLibrary, ReportsEveryMissingLibrary) {
  const GpuApi api = {"fake", {"libabsent_gpu.so.1", "libabsent_gpu.so.2"}, "i", "c", "n"};
  const absl::Status status = probe_gpu(api).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message(status), AllOf(HasSubstr("fake: not available, because "),
                                     HasSubstr("libabsent_gpu.so.1"), HasSubstr("libabsent_gpu.so.2")));
  EXPECT_EQ(enumerate_gpu(api).status(), status);
  EXPECT_EQ(refuse_gpu(api, "fake:0"), status);
}

TEST(GpuLibrary, ReportsAMissingFunction) {
  GpuApi api = fake(LATHE_FAKE_GPU_TWO_DEVICES);
  api.count = "fakeAbsent";
  const absl::Status status = probe_gpu(api).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message(status), HasSubstr("no fakeAbsent"));
}

TEST(GpuLibrary, ReportsADriverWithoutDevices) {
  const absl::Status none = probe_gpu(fake(LATHE_FAKE_GPU_NO_DEVICE)).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message(none), HasSubstr("finds no device"));
  const absl::Status failing = probe_gpu(fake(LATHE_FAKE_GPU_FAILING)).status();
  EXPECT_EQ(failing.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message(failing), HasSubstr("fakeInit answered 100 (no device)"));
}

TEST(GpuLibrary, ListsDevicesAndSaysThatTheyCannotLaunch) {
  const GpuApi api = fake(LATHE_FAKE_GPU_TWO_DEVICES);
  auto found = probe_gpu(api);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, (std::vector<std::string>{"Imaginary 0", "Imaginary 1"}));
  auto names = enumerate_gpu(api);
  ASSERT_TRUE(names.ok());
  EXPECT_EQ(*names, (std::vector<std::string>{"fake:0", "fake:1"}));
  const absl::Status status = refuse_gpu(api, "fake:1");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message(status), AllOf(HasSubstr("fake:1: not available, because "),
                                     HasSubstr("on the CPU alone"), HasSubstr("Imaginary 1")));
  const absl::Status beyond = refuse_gpu(api, "fake:2");
  EXPECT_EQ(beyond.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message(beyond), HasSubstr("finds 2 device(s)"));
}

TEST(GpuLibrary, RefusesMalformedNames) {
  const GpuApi api = fake(LATHE_FAKE_GPU_TWO_DEVICES);
  for (const char* name : {"fake", "fake:", "fake:x", "fake:-1", "fake:0x0", "other:0", "fake:99999999999"}) {
    EXPECT_EQ(refuse_gpu(api, name).code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

}  // namespace
}  // namespace lathe
