// The context that a call works in, and that the caller's thread gets its own context back on every path.
#include "runtime/gpu/contexts.h"

#include "fake_gpu.h"

namespace lathe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class GpuContexts : public FakeGpu {
 protected:
  fake_driver::Context* launched_in() const { return state_->launches.back().context; }
};

TEST_F(GpuContexts, PrimaryContextIsRetainedWhileTheDeviceIsOpen) {
  auto first = open(3);
  EXPECT_EQ(state_->retained, (std::map<int, int>{{3, 1}}));
  auto second = open(3);
  EXPECT_EQ(state_->retained[3], 2);
  first.reset();
  second.reset();
  EXPECT_EQ(state_->retained[3], 0);
  EXPECT_THAT(context_stack(), IsEmpty());
  state_->fail_once["cuDevicePrimaryCtxRetain"] = 2;
  EXPECT_EQ(gpu::open(platform_, "cuda:3", {}).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(state_->retained[3], 0);
}

TEST_F(GpuContexts, LaunchPushesThePrimaryContextOnlyIfItIsNotCurrent) {
  auto driver = open();
  const auto kernel = load(*driver, artifact_of({step_of("k")}));
  TestLaunch l(*kernel);
  const int pushes = state_->calls["cuCtxPushCurrent_v2"];
  ASSERT_TRUE(driver->launch(l.launch).ok());
  EXPECT_EQ(state_->calls["cuCtxPushCurrent_v2"], pushes + 1);
  EXPECT_THAT(context_stack(), IsEmpty());
  context_stack() = {primary(0)};
  ASSERT_TRUE(driver->launch(l.launch).ok());
  EXPECT_EQ(state_->calls["cuCtxPushCurrent_v2"], pushes + 1);
  EXPECT_THAT(context_stack(), ElementsAre(primary(0)));
}

TEST_F(GpuContexts, RestoresTheCallersStackAfterEveryFailure) {
  auto driver = open();
  auto* foreign = make_context(1);
  auto* below = make_context(2);
  Artifact artifact = artifact_of({step_of("k")});
  artifact.recipe.workspace_bytes = constant(1000);
  artifact.recipe.counters = constant(10);
  for (const char* function :
       {"cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuCtxGetDevice", "cuStreamGetCtx", "cuStreamIsCapturing",
        "cuModuleLoadDataEx", "cuModuleGetFunction", "cuMemAlloc_v2", "cuStreamCreate", "cuMemsetD8Async",
        "cuStreamSynchronize", "cuLaunchKernelEx", "cuMemFree_v2", "cuLinkCreate_v2",
        "cuMemcpyHtoDAsync_v2"}) {
    context_stack() = {below, foreign};
    state_->fail_once[function] = 999;
    int failures = 0;
    auto kernel = driver->load(artifact);
    failures += !kernel.ok();
    if (!kernel.ok()) kernel = driver->load(artifact);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    auto* stream = make_stream(primary(0));
    TestLaunch l(**kernel);
    l.launch.stream = stream;
    l.launch.config.workspace_bytes = 1000;
    l.launch.config.counters = 10;
    failures += !driver->launch(l.launch).ok();
    failures += !driver->is_capturing(stream).ok();
    l.launch.stream = nullptr;  // the default stream while another device's context is current
    failures += !driver->launch(l.launch).ok();
    auto memory = driver->memory().allocate(64);
    failures += !memory.ok();
    if (memory.ok()) {
      const int word = 0;
      failures += !driver->memory().copy(stream, *memory, &word, 4, CopyKind::kToDevice).ok();
      failures += !driver->memory().release(*memory).ok();
    }
    failures += driver->finish(artifact_of({step_of("k")}, CodeFormat::kPtx)).format == CodeFormat::kPtx &&
                std::string(function) == "cuLinkCreate_v2";
    failures += !driver->memory().synchronize(stream).ok();
    EXPECT_EQ(failures, 1) << function;
    EXPECT_THAT(context_stack(), ElementsAre(below, foreign)) << function;
    EXPECT_EQ(capture_mode(), 0) << function;
    state_->linked_image = "cubin\n";
  }
}

TEST_F(GpuContexts, LaunchRunsInTheStreamsContext) {
  auto driver = open();
  const auto kernel = load(*driver, artifact_of({step_of("k")}));
  auto* own = make_context(0);
  TestLaunch l(*kernel);
  auto* stream = make_stream(own);
  l.launch.stream = stream;
  ASSERT_TRUE(driver->launch(l.launch).ok());
  EXPECT_EQ(launched_in(), own) << "whatever context is current";
  EXPECT_EQ(state_->modules.size(), 2u) << "the code is loaded once per context";
  ASSERT_TRUE(driver->launch(l.launch).ok());
  EXPECT_EQ(state_->modules.size(), 2u);
  context_stack() = {own};
  const int pushes = state_->calls["cuCtxPushCurrent_v2"];
  ASSERT_TRUE(driver->launch(l.launch).ok());
  EXPECT_EQ(state_->calls["cuCtxPushCurrent_v2"], pushes);
  l.launch.stream = make_stream(primary(0));
  ASSERT_TRUE(driver->launch(l.launch).ok());
  EXPECT_EQ(launched_in(), primary(0));
  EXPECT_THAT(context_stack(), ElementsAre(own));
  EXPECT_EQ(state_->mismatched, 0);
}

TEST_F(GpuContexts, DefaultStreamUsesTheCurrentContextOfThisDevice) {
  auto driver = open();
  const auto kernel = load(*driver, artifact_of({step_of("k")}));
  auto* own = make_context(0);
  auto* foreign = make_context(1);
  TestLaunch l(*kernel);
  for (uintptr_t stream : {0, 1, 2}) {
    l.launch.stream = reinterpret_cast<void*>(stream);
    context_stack() = {own};
    ASSERT_TRUE(driver->launch(l.launch).ok());
    EXPECT_EQ(launched_in(), own) << stream;
    context_stack() = {foreign};
    ASSERT_TRUE(driver->launch(l.launch).ok());
    EXPECT_EQ(launched_in(), primary(0)) << stream;
    EXPECT_THAT(context_stack(), ElementsAre(foreign));
    context_stack() = {};
    ASSERT_TRUE(driver->launch(l.launch).ok());
    EXPECT_EQ(launched_in(), primary(0)) << stream;
  }
}

TEST_F(GpuContexts, RejectsAStreamOfAnotherDevice) {
  auto driver = open(0);
  auto other = open(1);
  const auto kernel = load(*driver, artifact_of({step_of("k")}));
  TestLaunch l(*kernel);
  l.launch.stream = make_stream(primary(1));
  const absl::Status status = driver->launch(l.launch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message(status), HasSubstr("the stream belongs to another device"));
  EXPECT_EQ(driver->is_capturing(l.launch.stream).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(context_stack(), IsEmpty());
  EXPECT_TRUE(state_->launches.empty());
}

TEST_F(GpuContexts, HandlesAStreamHandleReusedInAnotherContext) {
  auto driver = open();
  Artifact artifact = artifact_of({step_of("k")});
  const auto kernel = load(*driver, artifact);
  auto* own = make_context(0);
  auto* stream = make_stream(primary(0));
  TestLaunch l(*kernel);
  l.launch.stream = stream;
  l.launch.config.workspace_bytes = 500;
  ASSERT_TRUE(driver->launch(l.launch).ok());
  call<void(fake_driver::Stream*, fake_driver::Context*)>("fake_driver_reuse_stream")(stream, own);
  ASSERT_TRUE(driver->launch(l.launch).ok());
  EXPECT_EQ(launched_in(), own);
  const auto workspace = state_->launches.back().parameter<uint64_t>(7 * 8);
  const auto holder = std::prev(state_->allocations.upper_bound(workspace));
  EXPECT_EQ(holder->second.context, own) << "the memory belongs to that context, too";
  EXPECT_EQ(state_->mismatched, 1) << "the driver rejects the first launch only";
  ASSERT_TRUE(driver->launch(l.launch).ok());
  EXPECT_EQ(state_->mismatched, 1);
  // A stream that was destroyed stays an error.
  state_->streams.erase(stream);
  EXPECT_EQ(driver->launch(l.launch).code(), absl::StatusCode::kInvalidArgument);
  delete stream;
}

TEST_F(GpuContexts, GreenContextStreamsAreTreatedLikeDefaultStreams) {
  auto driver = open();
  const auto kernel = load(*driver, artifact_of({step_of("k")}));
  context_stack() = {primary(0)};
  TestLaunch l(*kernel);
  l.launch.stream = make_stream(primary(0));
  state_->fail_always["cuStreamGetCtx"] = 801;
  EXPECT_TRUE(driver->launch(l.launch).ok());
  EXPECT_EQ(launched_in(), primary(0));
}

TEST_F(GpuContexts, EightDevicesWorkInOneProcess) {
  std::vector<std::unique_ptr<Driver>> drivers;
  std::vector<std::unique_ptr<LoadedKernel>> kernels;
  for (int i = 0; i < 8; ++i) {
    drivers.push_back(open(i));
    kernels.push_back(load(*drivers.back(), artifact_of({step_of("k" + std::to_string(i))})));
  }
  context_stack() = {primary(5)};
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < 8; ++i) {
      TestLaunch l(*kernels[i]);
      l.launch.config.workspace_bytes = 100;
      ASSERT_TRUE(drivers[i]->launch(l.launch).ok());
      EXPECT_EQ(launched_in(), primary(static_cast<int>(i)));
      EXPECT_EQ(state_->launches.back().symbol, "k" + std::to_string(i));
    }
  }
  EXPECT_THAT(context_stack(), ElementsAre(primary(5)));
  EXPECT_EQ(state_->allocations.size(), 8u) << "one slab per device";
  kernels.clear();
  drivers.clear();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(state_->retained[i], 0);
  EXPECT_TRUE(state_->modules.empty());
  EXPECT_TRUE(state_->allocations.empty());
  EXPECT_THAT(context_stack(), ElementsAre(primary(5)));
}

TEST_F(GpuContexts, MemoryAllocatesCopiesAndReleases) {
  auto driver = open(2);
  DeviceMemory& memory = driver->memory();
  EXPECT_EQ(*memory.allocate(0), nullptr);
  auto first = memory.allocate(100), second = memory.allocate(100);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(state_->allocations.begin()->second.context, primary(2));
  auto stream = memory.create_stream();
  ASSERT_TRUE(stream.ok());
  const std::string text = "copied thrice";
  char back[32] = {};
  EXPECT_TRUE(memory.copy(*stream, *first, text.c_str(), text.size() + 1, CopyKind::kToDevice).ok());
  EXPECT_TRUE(memory.copy(*stream, *second, *first, text.size() + 1, CopyKind::kOnDevice).ok());
  EXPECT_TRUE(memory.copy(nullptr, back, *second, text.size() + 1, CopyKind::kToHost).ok());
  EXPECT_TRUE(memory.synchronize(*stream).ok());
  EXPECT_EQ(back, text);
  EXPECT_TRUE(memory.destroy_stream(*stream).ok());
  EXPECT_EQ(memory.destroy_stream(*stream).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(memory.destroy_stream(nullptr).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(memory.release(*first).ok());
  EXPECT_TRUE(memory.release(*second).ok());
  EXPECT_EQ(memory.release(*second).code(), absl::StatusCode::kInvalidArgument);
  const absl::Status none = memory.allocate(size_t{1} << 40).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(message(none), HasSubstr("allocating 1099511627776 bytes"));
  // A stream of the caller's own context.
  auto* own = make_context(2);
  EXPECT_TRUE(memory.synchronize(make_stream(own)).ok());
  EXPECT_EQ(state_->mismatched, 0);
}

}  // namespace
}  // namespace lathe
