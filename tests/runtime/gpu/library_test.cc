// Opening a driver's library, listing devices, and the errors if there are none.
#include "runtime/gpu/library.h"

#include "fake_gpu.h"

namespace lathe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class GpuLibrary : public FakeGpu {};

TEST_F(GpuLibrary, ReportsEveryMissingLibrary) {
  platform_.libraries = {"libabsent_gpu.so.1", "libabsent_gpu.so.2"};
  const absl::Status status = gpu::enumerate(platform_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message(status), AllOf(HasSubstr("cuda: not available, because "),
                                     HasSubstr("libabsent_gpu.so.1"), HasSubstr("libabsent_gpu.so.2")));
  EXPECT_EQ(gpu::query(platform_, "cuda:0").status(), status);
  EXPECT_EQ(gpu::open(platform_, "cuda:0", {}).status(), status);
}

TEST_F(GpuLibrary, TriesLibrariesInOrder) {
  platform_.libraries = {"libabsent_gpu.so.1", LATHE_FAKE_CUDA};
  EXPECT_TRUE(gpu::enumerate(platform_).ok());
}

TEST_F(GpuLibrary, ListsDevices) {
  state_->devices = 2;
  auto names = gpu::enumerate(platform_);
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_EQ(*names, (std::vector<std::string>{"cuda:0", "cuda:1"}));
  EXPECT_EQ(gpu::query(platform_, "cuda:1")->name, "Imaginary 1");
  const absl::Status beyond = gpu::open(platform_, "cuda:2", {}).status();
  EXPECT_EQ(beyond.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message(beyond), HasSubstr("cuda:2: not available, because the driver finds 2 device(s)"));
  EXPECT_TRUE(state_->retained.empty()) << "listing and querying must not create a context";
}

TEST_F(GpuLibrary, ReportsDriverWithoutDevices) {
  state_->devices = 0;
  const absl::Status none = gpu::enumerate(platform_).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message(none), HasSubstr("finds no device"));
  state_->fail_always["cuDeviceGetCount"] = 100;
  EXPECT_EQ(gpu::enumerate(platform_).status().code(), absl::StatusCode::kUnavailable);
  state_->fail_always["cuInit"] = 100;
  const absl::Status failing = gpu::enumerate(platform_).status();
  EXPECT_EQ(failing.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message(failing), HasSubstr("its initialisation failed: error 100 (no device)"));
  const absl::Status opened = gpu::open(platform_, "cuda:0", {}).status();
  EXPECT_EQ(opened.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message(opened), HasSubstr("CUDA_ERROR_100 (as the fake driver says)"));
}

TEST_F(GpuLibrary, RejectsMalformedNames) {
  for (const char* name : {"cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:0x0", "other:0", "cuda:99999999999"}) {
    EXPECT_EQ(gpu::open(platform_, name, {}).status().code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(gpu::query(platform_, name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

// Drivers of CUDA 11.7 and before have no cuLaunchKernelEx.
class OldestLibrary : public FakeGpu {
 protected:
  OldestLibrary() : FakeGpu(LATHE_FAKE_CUDA_BEFORE_11_8) {}
};
TEST_F(OldestLibrary, ReportsMissingFunction) {
  EXPECT_TRUE(gpu::enumerate(platform_).ok()) << "listing does not need it";
  const absl::Status status = gpu::open(platform_, "cuda:0", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message(status), HasSubstr("no cuLaunchKernelEx: it is older"));
}

}  // namespace
}  // namespace lathe
