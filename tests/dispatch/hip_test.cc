// Requests on a fake HIP that records its calls: captures, several devices, refused code, lack of memory.
#include <gtest/gtest.h>

#include "fake_device.h"
#include "fake_hip.h"

namespace lathe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class HipRequests : public FakeHip {
 protected:
  HipRequests() {
    ContextOptions options;
    options.compiler_library = fake_compiler();
    context_ = std::make_unique<lathe_context>(std::move(options));
    device_ = open_device(0);
  }
  std::unique_ptr<lathe_device> open_device(int ordinal) {
    std::unique_ptr<Driver> driver = open(ordinal);
    const DeviceFacts facts = driver->facts();
    return std::make_unique<lathe_device>(*context_, "hip:" + std::to_string(ordinal), facts,
                                          std::move(driver));
  }
  fake_driver::Stream* stream_of(int device) {
    const int before = current_device();
    set_device(device);
    set_device(before);
    return make_stream(primary(device));
  }
  lathe_status run(void* stream = nullptr) { return lathe_matmul(device_.get(), stream, &request_.desc); }
  uint64_t compiles() const {
    lathe_statistics s = LATHE_STATISTICS_INIT;
    read_statistics(*context_, &s);
    return s.compiles;
  }

  std::unique_ptr<lathe_context> context_;
  std::unique_ptr<lathe_device> device_;
  MatmulRequest request_{7, 40, 33};
};

TEST_F(HipRequests, HitLaunchesInACaptureAndMissFails) {
  fake_driver::Stream* stream = stream_of(0);
  stream->capturing = true;
  EXPECT_EQ(run(stream), LATHE_CAPTURE_MISS);
  EXPECT_THAT(lathe_last_error(), HasSubstr("on hip:0: no kernel"));
  EXPECT_EQ(compiles(), 0u);
  EXPECT_TRUE(state_->modules.empty() && state_->launches.empty());
  stream->capturing = false;
  ASSERT_EQ(run(stream), LATHE_OK) << lathe_last_error();
  stream->capturing = true;
  ASSERT_EQ(run(stream), LATHE_OK) << lathe_last_error();
  ASSERT_EQ(state_->launches.size(), 2u);
  EXPECT_EQ(state_->launches.back().stream, stream);
  MatmulRequest other(7, 41, 33);
  EXPECT_EQ(lathe_matmul(device_.get(), stream, &other.desc), LATHE_CAPTURE_MISS);
  EXPECT_EQ(state_->unsafe_in_capture, 0);
  EXPECT_FALSE(stream->invalidated);
}

// A capture on another stream stays valid during a miss.
TEST_F(HipRequests, MissDoesNotInvalidateAnotherCapture) {
  fake_driver::Stream *captured = stream_of(0), *own = stream_of(0);
  captured->capturing = true;
  ASSERT_EQ(run(own), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(compiles(), 1u);
  EXPECT_EQ(state_->unsafe_in_capture, 0);
  EXPECT_FALSE(captured->invalidated);
}

TEST_F(HipRequests, DevicesShareOnlyCode) {
  auto second = open_device(1);
  set_device(5);
  ASSERT_EQ(run(), LATHE_OK) << lathe_last_error();
  ASSERT_EQ(lathe_matmul(second.get(), nullptr, &request_.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(compiles(), 1u);
  EXPECT_EQ(state_->modules.size(), 2u) << "one per device";
  EXPECT_EQ(state_->launches[0].context, primary(0));
  EXPECT_EQ(state_->launches[1].context, primary(1));
  EXPECT_EQ(current_device(), 5) << "the thread's device does not change";
  EXPECT_EQ(lathe_matmul(second.get(), stream_of(0), &request_.desc), LATHE_INVALID_ARGUMENT);
  EXPECT_THAT(lathe_last_error(), HasSubstr("the stream belongs to another device"));
  EXPECT_EQ(current_device(), 5);
}

// A cached code object that this device cannot run (for example, built for another xnack mode) is compiled again,
// once.
TEST_F(HipRequests, ForeignCodeInTheCacheIsCompiledAgain) {
  ASSERT_EQ(run(), LATHE_OK) << lathe_last_error();
  int ordinal = 0;
  for (int refusal : {209, 303}) {
    auto other = open_device(++ordinal);
    state_->fail_once["hipModuleLoadDataEx"] = refusal;
    EXPECT_EQ(lathe_matmul(other.get(), nullptr, &request_.desc), LATHE_OK) << lathe_last_error();
    EXPECT_EQ(compiles(), 1u + ordinal);
    EXPECT_TRUE(state_->fail_once.empty());
  }
  // If freshly compiled code is refused, that is an error: the device is not what it claims to be.
  auto last = open_device(3);
  state_->agents[3].isas[0] = "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-";
  EXPECT_EQ(lathe_matmul(last.get(), nullptr, &request_.desc), LATHE_INTERNAL);
  EXPECT_THAT(lathe_last_error(), AllOf(HasSubstr("on hip:3"), HasSubstr("hipError209")));
}

TEST_F(HipRequests, ReportsALackOfMemory) {
  void* memory = this;
  state_->fail_always["hipMalloc"] = 2;
  EXPECT_EQ(lathe_device_alloc(device_.get(), 1 << 20, &memory), LATHE_OUT_OF_MEMORY);
  EXPECT_EQ(memory, nullptr);
  EXPECT_THAT(lathe_last_error(), HasSubstr("hipError2"));
  lathe_tuning tuning = LATHE_TUNING_INIT;
  tuning.split_k = 3;  // the partial sums need a workspace
  request_.desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
  EXPECT_EQ(run(), LATHE_OUT_OF_MEMORY);
  EXPECT_THAT(lathe_last_error(), AllOf(HasSubstr("m=7 n=40 k=33"), HasSubstr("workspace")));
  state_->fail_always.clear();
  EXPECT_EQ(run(), LATHE_OK) << "when memory is free again: " << lathe_last_error();
  state_->fail_once["hipModuleLoadDataEx"] = 2;
  MatmulRequest other(7, 41, 33);
  EXPECT_EQ(lathe_matmul(device_.get(), nullptr, &other.desc), LATHE_OUT_OF_MEMORY);
  EXPECT_EQ(lathe_matmul(device_.get(), nullptr, &other.desc), LATHE_OK) << lathe_last_error();
}

}  // namespace
}  // namespace lathe
