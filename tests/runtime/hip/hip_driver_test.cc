// Where HIP differs from CUDA: devices instead of contexts, hsaco, launches, pointers, and old versions.
#include "core/amd_targets.h"
#include "fake_hip.h"
#include "runtime/gpu/kernel.h"

namespace lathe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class HipDriver : public FakeHip {
 protected:
  explicit HipDriver(const char* library = LATHE_FAKE_HIP) : FakeHip(library) {}
  const fake_driver::Launch& last() const { return state_->launches.back(); }
  fake_driver::Stream* stream_of(int device) { return make_stream(context_of(device)); }
  fake_driver::Context* context_of(int device) {
    const int before = current_device();
    set_device(device);
    set_device(before);
    return primary(device);
  }
};

TEST_F(HipDriver, LaunchesWithTheBlockInOneBuffer) {
  auto driver = open();
  Step step = step_of("k");
  step.grid = {product(1, {{Var::kM, 64}}), product(2, {{Var::kN, 100}}),
               product(1, {{Var::kBatch, 1}, {Var::kSplits, 1}})};
  step.block = {96, 2, 3};
  step.dynamic_shared_memory = product(16, {{Var::kK, 32}});
  const auto kernel = load(*driver, hsaco_of({step}));
  TestLaunch l(*kernel);
  l.resize(65, 201, 100, 5);
  l.launch.config.splits = 3;
  l.args.alpha = 1.5f;
  auto* stream = stream_of(0);
  l.launch.stream = stream;
  ASSERT_TRUE(driver->launch(l.launch).ok());
  EXPECT_EQ(last().symbol, "k");
  EXPECT_THAT(last().grid, ElementsAre(2, 6, 15));
  EXPECT_THAT(last().block, ElementsAre(96, 2, 3));
  EXPECT_EQ(last().shared, 64u);
  EXPECT_EQ(last().stream, stream);
  ASSERT_EQ(last().parameters.size(), 368u);
  EXPECT_EQ(last().parameter<void*>(0), TestLaunch::at(1));
  EXPECT_EQ(last().parameter<float>(360), 1.5f);
}

TEST_F(HipDriver, RestoresTheThreadsDeviceAfterEveryFailure) {
  auto driver = open(2);
  Artifact artifact = hsaco_of({step_of("k")});
  artifact.recipe.workspace_bytes = constant(1000);
  artifact.recipe.counters = constant(10);
  auto* stream = stream_of(2);
  set_device(5);
  for (const char* function :
       {"hipGetDevice", "hipSetDevice", "hipStreamGetDevice", "hipStreamIsCapturing", "hipModuleLoadDataEx",
        "hipModuleGetFunction", "hipFuncGetAttribute", "hipMalloc", "hipStreamCreateWithFlags",
        "hipMemsetD8Async", "hipStreamSynchronize", "hipModuleLaunchKernel", "hipFree",
        "hipMemcpyHtoDAsync"}) {
    driver = open(2);
    state_->fail_once[function] = 999;
    int failures = 0;
    auto kernel = driver->load(artifact);
    failures += !kernel.ok();
    if (!kernel.ok()) kernel = driver->load(artifact);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    TestLaunch l(**kernel);
    l.launch.stream = stream;
    l.launch.config.workspace_bytes = 1000;
    l.launch.config.counters = 10;
    failures += !driver->launch(l.launch).ok();
    failures += !driver->is_capturing(stream).ok();
    auto memory = driver->memory().allocate(64);
    failures += !memory.ok();
    if (memory.ok()) {
      const int word = 0;
      failures += !driver->memory().copy(stream, *memory, &word, 4, CopyKind::kToDevice).ok();
      failures += !driver->memory().release(*memory).ok();
    }
    EXPECT_EQ(failures, 1) << function;
    EXPECT_EQ(current_device(), 5) << function;
    EXPECT_EQ(capture_mode(), 0) << function;
  }
  EXPECT_EQ(state_->mismatched, 0);
}

TEST_F(HipDriver, LaunchRunsOnTheStreamsDevice) {
  auto first = open(0);
  auto second = open(1);
  const auto kernel = load(*second, hsaco_of({step_of("k")}));
  TestLaunch l(*kernel);
  l.launch.stream = stream_of(1);
  ASSERT_TRUE(second->launch(l.launch).ok());
  EXPECT_EQ(last().context, primary(1));
  l.launch.stream = nullptr;
  ASSERT_TRUE(second->launch(l.launch).ok());
  EXPECT_EQ(last().context, primary(1)) << "the default stream belongs to the opened device";
  l.launch.stream = stream_of(0);
  EXPECT_THAT(message(second->launch(l.launch)), HasSubstr("the stream belongs to another device"));
  EXPECT_EQ(current_device(), 0);
}

TEST_F(HipDriver, LegacyStreamIsTheNullStream) {
  auto driver = open();
  const auto kernel = load(*driver, hsaco_of({step_of("k")}));
  TestLaunch l(*kernel);
  for (uintptr_t handle : {0, 1, 2}) {
    l.launch.stream = reinterpret_cast<void*>(handle);
    ASSERT_TRUE(driver->launch(l.launch).ok());
    EXPECT_EQ(last().stream, reinterpret_cast<void*>(handle == 1 ? 0 : handle));
  }
}

TEST_F(HipDriver, AcceptsOnlyHsacoForItsOwnTarget) {
  auto driver = open();
  EXPECT_THAT(message(driver->load(artifact_of({step_of("k")})).status()),
              HasSubstr("code format cubin is not hsaco"));
  // A code object for another architecture or mode, as a cache might hold. Compiling again may help.
  for (const char* isa : {"gfx1100", "gfx942:sramecc+:xnack+", "gfx90a:sramecc+:xnack-"}) {
    const absl::Status status = driver->load(hsaco_of({step_of("k")}, isa)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << isa;
    EXPECT_THAT(message(status), AllOf(HasSubstr("loading hsaco of k"), HasSubstr("hipError209")));
  }
  Artifact broken = hsaco_of({step_of("k")});
  broken.code = "not an ELF file";
  EXPECT_EQ(driver->load(broken).status().code(), absl::StatusCode::kDataLoss);
  for (int result : {98, 200, 209, 218, 300, 302, 303}) {
    state_->fail_once["hipModuleLoadDataEx"] = result;
    EXPECT_EQ(driver->load(hsaco_of({step_of("k")})).status().code(), absl::StatusCode::kDataLoss) << result;
  }
  state_->fail_once["hipModuleLoadDataEx"] = 2;
  EXPECT_EQ(driver->load(hsaco_of({step_of("k")})).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(state_->modules.empty());
}

TEST_F(HipDriver, RejectsWhatOnlyCudaHas) {
  auto driver = open();
  Step step = step_of("k");
  step.cluster = {2, 1, 1};
  EXPECT_THAT(message(driver->load(hsaco_of({step})).status()), HasSubstr("gfx942 has no cluster of 2"));
  step = step_of("k");
  step.attributes = {"pdl"};
  EXPECT_THAT(message(driver->load(hsaco_of({step})).status()),
              HasSubstr("no programmatic dependent launch"));
  step = step_of("k");
  step.tensor_maps = {{"a", DType::kF16, Var::kK, Var::kM, 64, 128, 128}};
  step.argument_bytes = parameter_bytes(1);
  const auto mapped = driver->load(hsaco_of({step}));
  ASSERT_TRUE(mapped.ok());
  TestLaunch l(**mapped);
  EXPECT_EQ(driver->launch(l.launch).code(), absl::StatusCode::kUnavailable) << "HIP has no tensor maps";
}

TEST_F(HipDriver, SharedMemoryNeedsNoRequest) {
  auto driver = open();
  Step step = step_of("k");
  step.dynamic_shared_memory = constant(65536);
  EXPECT_TRUE(driver->load(hsaco_of({step})).ok());
  step.dynamic_shared_memory = constant(65537);
  EXPECT_THAT(message(driver->load(hsaco_of({step})).status()), HasSubstr("shared memory 0 + 65537 > 65536"));
}

// The hardware's dispatch packet counts a grid's threads along x in 32 bits.
TEST_F(HipDriver, LaunchesAGridOfTooManyThreadsInParts) {
  auto driver = open();
  Step step = step_of("k");
  step.grid = {product(1, {{Var::kM, 1}, {Var::kBatch, 1}}), constant(1), constant(1)};
  step.block = {1024, 1, 1};
  const auto kernel = load(*driver, hsaco_of({step}));
  TestLaunch l(*kernel);
  l.resize(1 << 20, 8, 8, 7);  // 2^30 threads per matrix, so three fit
  ASSERT_TRUE(driver->launch(l.launch).ok());
  ASSERT_EQ(state_->launches.size(), 3u);
  EXPECT_EQ(state_->launches[0].grid[0], 3u << 20);
  EXPECT_EQ(state_->launches[2].grid[0], 1u << 20);
}

TEST_F(HipDriver, LaunchesAndLoadsDuringACapture) {
  auto driver = open();
  Artifact artifact = hsaco_of({step_of("k")});
  const auto kernel = load(*driver, artifact);
  TestLaunch l(*kernel);
  auto* stream = stream_of(0);
  EXPECT_FALSE(*driver->is_capturing(stream));
  stream->capturing = true;
  EXPECT_TRUE(*driver->is_capturing(stream));
  EXPECT_TRUE(*driver->is_capturing(nullptr)) << "work on the null stream would end the capture";
  // The first launch with memory, and a load, while the stream is being captured.
  l.launch.stream = stream;
  l.launch.config.workspace_bytes = 4096;
  l.launch.config.counters = 3;
  EXPECT_TRUE(driver->launch(l.launch).ok());
  EXPECT_TRUE(driver->load(artifact).ok());
  EXPECT_EQ(state_->unsafe_in_capture, 0);
  EXPECT_FALSE(stream->invalidated);
}

TEST_F(HipDriver, ValidatesPointersWhenAsked) {
  DriverOptions options;
  options.validate = true;
  auto driver = open(1, options);
  const auto kernel = load(*driver, hsaco_of({step_of("k")}));
  TestLaunch l(*kernel);
  for (void* p : {l.args.a, l.args.b, l.args.d}) state_->pointers[p] = {2, 1, true};
  EXPECT_TRUE(driver->launch(l.launch).ok());
  state_->pointers[l.args.b] = {1, 0, true};
  EXPECT_TRUE(driver->launch(l.launch).ok()) << "pinned host memory";
  state_->pointers[l.args.d] = {2, 3, true};
  EXPECT_THAT(message(driver->launch(l.launch)), HasSubstr("d is in the memory of device 3, not 1"));
  state_->pointers.erase(l.args.a);
  EXPECT_THAT(message(driver->launch(l.launch)), HasSubstr("a is in memory that no device can reach"));
}

TEST_F(HipDriver, OutOfMemoryIsReportedAndRecoverable) {
  auto driver = open();
  const auto kernel = load(*driver, hsaco_of({step_of("k")}));
  TestLaunch l(*kernel);
  l.launch.config.workspace_bytes = 4096;
  state_->fail_always["hipMalloc"] = 2;
  const absl::Status status = driver->launch(l.launch);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(message(status), HasSubstr("allocating a workspace of"));
  EXPECT_EQ(driver->memory().allocate(64).status().code(), absl::StatusCode::kResourceExhausted);
  state_->fail_always.clear();
  EXPECT_TRUE(driver->launch(l.launch).ok());
}

TEST_F(HipDriver, ReportsEveryMissingLibrary) {
  platform_.libraries = {"libabsent_hip.so.7", "libabsent_hip.so.6"};
  const absl::Status status = gpu::open(platform_, "hip:0", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message(status), AllOf(HasSubstr("hip: not available, because "),
                                     HasSubstr("libabsent_hip.so.7"), HasSubstr("libabsent_hip.so.6")));
  EXPECT_EQ(gpu::enumerate(platform_).status(), status);
}

// Every member of a generic target and every other GPU opens by its own name.
TEST_F(HipDriver, OpensEverySupportedGpu) {
  for (const AmdGpu& gpu : amd_gpus()) {
    set_isa(std::string(gpu.name));
    EXPECT_EQ(open()->facts().target, *parse_target(gpu.name)) << gpu.name;
  }
}

TEST_F(HipDriver, ReportsHipWithoutDevices) {
  state_->fail_always["hipInit"] = 100;
  EXPECT_THAT(message(gpu::open(platform_, "hip:0", {}).status()),
              AllOf(HasSubstr("hip: not available"), HasSubstr("hipError100 (as the fake driver says)")));
  EXPECT_THAT(message(gpu::enumerate(platform_).status()), HasSubstr("hipError100"));
}

// A CUDA driver that is loaded as HIP has none of HIP's functions.
TEST_F(HipDriver, ReportsMissingFunction) {
  platform_.libraries = {LATHE_FAKE_CUDA};
  const absl::Status status = gpu::open(platform_, "hip:0", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message(status),
              HasSubstr("the driver's library has no hipInit: it is older than this library needs"));
}

// HIP 5 has no hipStreamGetDevice.
class OldHip : public HipDriver {
 protected:
  OldHip() : HipDriver(LATHE_FAKE_HIP_5) {}
};
TEST_F(OldHip, FindsTheDeviceOfAStream) {
  auto first = open(0);
  auto second = open(1);
  const auto kernel = load(*second, hsaco_of({step_of("k")}));
  TestLaunch l(*kernel);
  l.launch.stream = stream_of(1);
  ASSERT_TRUE(second->launch(l.launch).ok());
  EXPECT_EQ(last().context, primary(1));
  EXPECT_EQ(state_->calls["hipGetStreamDeviceId"], 1);
  l.launch.stream = stream_of(0);
  EXPECT_THAT(message(second->launch(l.launch)), HasSubstr("the stream belongs to another device"));
  l.launch.stream = TestLaunch::at(77);  // not a stream
  EXPECT_EQ(second->launch(l.launch).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lathe
