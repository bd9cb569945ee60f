// Loading kernels: what is rejected, the calls to the driver, and the driver's messages after a failure.
#include "runtime/gpu/kernel.h"

#include "fake_gpu.h"

namespace lathe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class GpuKernel : public FakeGpu {
 protected:
  void expect_refusal(const Artifact& artifact, const std::string& part) {
    const auto kernel = driver_->load(artifact);
    EXPECT_EQ(kernel.status().code(), absl::StatusCode::kInvalidArgument) << kernel.status();
    EXPECT_THAT(message(kernel.status()), HasSubstr(part));
    EXPECT_TRUE(state_->modules.empty()) << part;
    EXPECT_TRUE(context_stack().empty()) << part;
  }
  void expect_refusal(const Step& step, const std::string& part) {
    expect_refusal(artifact_of({step}), part);
  }
  const fake_driver::Function& function(const std::string& symbol) {
    return (*state_->modules.begin())->functions.at(symbol);
  }

  std::unique_ptr<Driver> driver_ = open();
  Step step_ = step_of("k");
};

TEST_F(GpuKernel, LoadsIntoThePrimaryContextAndUnloads) {
  {
    const auto kernel = load(*driver_, artifact_of({step_of("first"), step_of("second")}));
    ASSERT_EQ(state_->modules.size(), 1u);
    EXPECT_EQ((*state_->modules.begin())->context, primary(0));
    EXPECT_TRUE(function("first").loaded && function("second").loaded)
        << "no first launch may wait for the driver";
    EXPECT_EQ(kernel->recipe().steps.size(), 2u);
  }
  EXPECT_TRUE(state_->modules.empty());
  EXPECT_TRUE(context_stack().empty());
  EXPECT_EQ(capture_mode(), 0);
}

TEST_F(GpuKernel, LoadsPtx) {
  load(*driver_, artifact_of({step_}, CodeFormat::kPtx));
  EXPECT_EQ(state_->calls["cuModuleLoadDataEx"], 1);
}

TEST_F(GpuKernel, RejectsRecipesThatItCannotRun) {
  Artifact artifact = artifact_of({step_});
  artifact.format = CodeFormat::kHsaco;
  expect_refusal(artifact, "neither cubin nor PTX");
  artifact = artifact_of({step_});
  artifact.recipe.version = 1;
  expect_refusal(artifact, "recipe version 1");
  artifact = artifact_of({});
  expect_refusal(artifact, "no steps");
  artifact = artifact_of(std::vector<Step>(9, step_));
  expect_refusal(artifact, "9 steps");
  artifact = artifact_of({step_});
  artifact.recipe.pointer_alignment = 12;
  expect_refusal(artifact, "pointer alignment 12");
}

TEST_F(GpuKernel, RejectsStepsThatItCannotRun) {
  const auto changed = [&](auto change) {
    Step step = step_;
    change(step);
    return step;
  };
  expect_refusal(changed([](Step& s) { s.kind = StepKind::kCpuTask; }), "a GPU runs only gpu_kernel");
  expect_refusal(changed([](Step& s) { s.symbol = ""; }), "no symbol");
  expect_refusal(changed([](Step& s) { s.argument_bytes = 192; }),
                 "takes 192 bytes of parameters, but 368 are passed");
  expect_refusal(changed([](Step& s) { s.attributes = {"cooperative"}; }),
                 "unknown launch attribute cooperative");
  expect_refusal(changed([](Step& s) { s.block = {1025, 1, 1}; }), "workgroup of 1025 by 1 by 1");
  expect_refusal(changed([](Step& s) { s.block = {1, 1, 65}; }), "workgroup of 1 by 1 by 65");
  expect_refusal(changed([](Step& s) { s.block = {0, 1, 1}; }), "workgroup of 0");
  expect_refusal(changed([](Step& s) { s.block = {64, 32, 1}; }), "workgroup of 64 by 32");
  expect_refusal(changed([](Step& s) { s.cluster = {17, 1, 1}; }), "no cluster of 17");
  expect_refusal(changed([](Step& s) { s.grid[1] = product(1, {{Var::kM, 0}}); }), "divides by 0");
  expect_refusal(changed([](Step& s) {
                   s.dynamic_shared_memory = product(1, {{static_cast<Var>(6), 1}});
                 }),
                 "unknown variable 6");
  expect_refusal(changed([](Step& s) { s.dynamic_shared_memory = constant(232449); }), "232449 > 232448");
}

TEST_F(GpuKernel, ClustersAndDependentLaunchNeedHopper) {
  state_->capability = 89;
  driver_ = open();
  Step step = step_;
  step.cluster = {2, 1, 1};
  expect_refusal(step, "sm_89 has no cluster of 2");
  step = step_;
  step.attributes = {"pdl"};
  expect_refusal(step, "sm_89 has no programmatic dependent launch");
}

TEST_F(GpuKernel, RejectsTensorMapsOutsideTheHardwareLimits) {
  const auto map = [&](auto change) {
    Step step = step_;
    TensorMap m{"a", DType::kF16, Var::kK, Var::kM, 64, 128, 128};
    change(m);
    step.tensor_maps = {m};
    step.argument_bytes = parameter_bytes(1);
    return step;
  };
  expect_refusal(map([](TensorMap& m) { m.operand = "bias"; }), "tensor map of bias: no such operand");
  expect_refusal(map([](TensorMap& m) { m.box_rows = 257; }), "a box of 64 by 257");
  expect_refusal(map([](TensorMap& m) { m.box_columns = 0; }), "a box of 0 by 128");
  expect_refusal(map([](TensorMap& m) { m.box_columns = 65; }), "row of 130 bytes");
  expect_refusal(map([](TensorMap& m) { m.box_columns = 72; }), "144 bytes exceeds the swizzle of 128");
  expect_refusal(map([](TensorMap& m) { m.swizzle = 48; }), "swizzle of 48");
  EXPECT_TRUE(driver_->load(artifact_of({map([](TensorMap&) {})})).ok());
}

TEST_F(GpuKernel, RejectsCodeThatContradictsTheRecipe) {
  Artifact artifact = artifact_of({step_});
  artifact.code = "cubin\nkernel other threads=1024 shared=0 maps=0\n";
  expect_refusal(artifact, "no function k");
  artifact.code = "cubin\nkernel k threads=96 shared=0 maps=0\n";
  expect_refusal(artifact, "a workgroup of 128 threads, but its code (registers) allows only 96");
  artifact.code = "cubin\nkernel k threads=128 shared=0 maps=1\n";
  expect_refusal(artifact, "has more than the 50 parameters");
  Step mapped = step_;
  mapped.tensor_maps = {{"a", DType::kF16, Var::kK, Var::kM, 64, 128, 128}};
  mapped.argument_bytes = parameter_bytes(1);
  artifact = artifact_of({mapped});
  artifact.code = "cubin\nkernel k threads=128 shared=0 maps=0\n";
  expect_refusal(artifact, "parameter 50 is missing, but 128 bytes are passed");
}

TEST_F(GpuKernel, RequestsSharedMemoryAndLargeClusters) {
  Step small = step_of("small"), large = step_of("large"), varying = step_of("varying"),
       wide = step_of("wide");
  small.dynamic_shared_memory = constant(48 << 10);
  large.dynamic_shared_memory = constant(200000);
  varying.dynamic_shared_memory = product(1024, {{Var::kM, 1}});
  wide.cluster = {4, 4, 1};
  load(*driver_, artifact_of({small}));
  const auto kernel = load(*driver_, artifact_of({small, large, varying, wide}));
  using Set = std::map<int, int>;
  EXPECT_EQ(function("small").set_attributes, Set());
  EXPECT_EQ(function("large").set_attributes, (Set{{8, 200000}}));
  EXPECT_EQ(function("varying").set_attributes, (Set{{8, 232448}})) << "the maximum of the device";
  EXPECT_EQ(function("wide").set_attributes, (Set{{14, 1}}));
}

TEST_F(GpuKernel, StaticSharedMemoryCounts) {
  step_.dynamic_shared_memory = constant(232448);
  Artifact artifact = artifact_of({step_});
  artifact.code = "cubin\nkernel k threads=1024 shared=16 maps=0\n";
  expect_refusal(artifact, "shared memory 16 + 232448 > 232448");
  artifact.recipe.steps[0].dynamic_shared_memory = constant(48 << 10);
  const auto kernel = load(*driver_, artifact);
  EXPECT_EQ(function("k").set_attributes, (std::map<int, int>{{8, 48 << 10}}));
}

TEST_F(GpuKernel, CodeThatTheDriverRejectsIsDataLoss) {
  state_->log = "ptxas fatal: Unresolved extern function 'expf'\n";
  for (int result : {200, 209, 218, 221, 222, 223}) {
    state_->fail_once["cuModuleLoadDataEx"] = result;
    const absl::Status status = driver_->load(artifact_of({step_})).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << result;
    EXPECT_THAT(message(status),
                AllOf(HasSubstr("loading cubin of k"), HasSubstr("CUDA_ERROR_" + std::to_string(result)),
                      HasSubstr("Unresolved extern function 'expf'")));
  }
  state_->fail_once["cuModuleLoadDataEx"] = 2;
  EXPECT_EQ(driver_->load(artifact_of({step_})).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(context_stack().empty());
}

TEST_F(GpuKernel, EveryFailureIsReportedAndUndone) {
  step_.dynamic_shared_memory = constant(200000);
  step_.cluster = {16, 1, 1};
  for (const char* function :
       {"cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuModuleLoadDataEx", "cuModuleGetFunction", "cuFuncLoad",
        "cuFuncGetAttribute", "cuFuncSetAttribute"}) {
    state_->fail_once[function] = 999;
    const absl::Status status = driver_->load(artifact_of({step_})).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << function;
    EXPECT_THAT(message(status), HasSubstr("CUDA_ERROR_999")) << function;
    EXPECT_TRUE(state_->modules.empty()) << function;
    EXPECT_TRUE(context_stack().empty()) << function;
    EXPECT_EQ(capture_mode(), 0) << function;
  }
  EXPECT_TRUE(driver_->load(artifact_of({step_})).ok());
}

TEST_F(GpuKernel, LinksPtxWithTheDriver) {
  state_->linked_image = "cubin\nkernel k threads=1024 shared=0 maps=0\n";
  Artifact ptx = artifact_of({step_}, CodeFormat::kPtx);
  ptx.metadata = R"({"compile_milliseconds":7})";
  const Artifact linked = driver_->finish(ptx);
  EXPECT_EQ(linked.format, CodeFormat::kCubin);
  EXPECT_EQ(linked.code, state_->linked_image);
  EXPECT_EQ(state_->linked, std::vector<std::string>{ptx.code});
  EXPECT_EQ(linked.metadata, R"({"assembler":"CUDA driver 13.0","compile_milliseconds":7})");
  EXPECT_TRUE(driver_->load(linked).ok());
  using Option = std::pair<int, uint64_t>;
  EXPECT_THAT(state_->link_options, ::testing::Contains(Option(7, 4))) << "optimisation level 4";
  EXPECT_THAT(state_->link_options, ::testing::Contains(::testing::Key(8)))
      << "for the device of the context";

  const Artifact again = driver_->finish(linked);
  EXPECT_EQ(again.code, linked.code);
  EXPECT_EQ(state_->linked.size(), 1u) << "a cubin is not linked again";
}

// A driver whose warnings the test can read.
class LoggedGpuKernel : public GpuKernel {
 protected:
  LoggedGpuKernel() {
    DriverOptions options;
    options.logger =
        Logger(LogLevel::kWarning, [this](LogLevel, const std::string& line) { log.push_back(line); });
    driver_ = open(0, options);
  }
  std::vector<std::string> log;
};

TEST_F(LoggedGpuKernel, LogsTheLinkersMessagesAboutTheCode) {
  state_->linked_image = "cubin\nkernel k threads=1024 shared=0 maps=0\n";
  state_->info_log =
      "ptxas info    : (C7509) Potential Performance Loss: wgmma.mma_async instructions are serialized\n"
      "ptxas info    : Function properties for k\n"
      "    64 bytes stack frame, 24 bytes spill stores, 36 bytes spill loads\n"
      "ptxas info    : Used 168 registers\n";
  const Artifact linked = driver_->finish(artifact_of({step_}, CodeFormat::kPtx));
  EXPECT_EQ(linked.format, CodeFormat::kCubin);
  ASSERT_EQ(log.size(), 2u);
  EXPECT_THAT(log[0], AllOf(HasSubstr("CUDA driver 13.0"), HasSubstr("(C7509)")));
  EXPECT_THAT(log[1], HasSubstr("k: 24 bytes spill stores, 36 bytes spill loads"));
  EXPECT_THAT(linked.metadata, AllOf(HasSubstr("(C7509)"), HasSubstr("24 bytes spill stores")));
  EXPECT_THAT(state_->link_options, ::testing::Contains(std::pair<int, uint64_t>(12, 1))) << "verbose";
}

// The driver's linker ignores setmaxnreg; its loader does not.
TEST_F(LoggedGpuKernel, PtxWithSetmaxnregIsNotLinked) {
  Artifact ptx = artifact_of({step_}, CodeFormat::kPtx);
  ptx.code += "kernel setmaxnreg threads=1 shared=0 maps=0\n";
  ptx.metadata = R"({"compile_milliseconds":7})";
  const Artifact left = driver_->finish(ptx);
  EXPECT_EQ(left.format, CodeFormat::kPtx);
  EXPECT_EQ(left.code, ptx.code);
  EXPECT_THAT(left.metadata, AllOf(HasSubstr("since linkers ignore setmaxnreg"), HasSubstr("milliseconds")));
  EXPECT_EQ(state_->calls["cuLinkCreate_v2"], 0);
  EXPECT_TRUE(driver_->load(left).ok());
  EXPECT_EQ(state_->calls["cuModuleLoadDataEx"], 1);
  EXPECT_TRUE(log.empty());

  state_->info_log =
      "ptxas info    : (C7515) Potential Performance Loss: wgmma.mma_async instructions are serialized\n"
      "ptxas info    : Used 168 registers\n";
  EXPECT_TRUE(driver_->load(left).ok());
  ASSERT_EQ(log.size(), 1u);
  EXPECT_THAT(log[0], AllOf(HasSubstr("cuda:0: assembling PTX: "), HasSubstr("(C7515)")));
}

TEST_F(LoggedGpuKernel, WarnsAboutAKernelThatSpills) {
  EXPECT_TRUE(driver_->load(artifact_of({step_})).ok());
  EXPECT_TRUE(log.empty());
  Artifact spills = artifact_of({step_});
  spills.code = "cubin\nkernel k threads=1024 shared=0 maps=0 local=184\n";
  EXPECT_TRUE(driver_->load(spills).ok());
  ASSERT_EQ(log.size(), 1u);
  EXPECT_THAT(log[0], AllOf(HasSubstr("cuda:0: k has 184 bytes of local memory"), HasSubstr("spills")));
}

TEST_F(LoggedGpuKernel, PtxThatTheDriverCannotLinkStaysPtx) {
  state_->log = "ptxas error: line 3";
  const Artifact ptx = artifact_of({step_}, CodeFormat::kPtx);
  const char* functions[] = {"cuLinkCreate_v2", "cuLinkAddData_v2", "cuLinkComplete", "cuCtxPushCurrent_v2"};
  for (const char* function : functions) {
    state_->fail_once[function] = 222;
    const Artifact left = driver_->finish(ptx);
    EXPECT_EQ(left.format, CodeFormat::kPtx) << function;
    EXPECT_EQ(left.code, ptx.code) << function;
    EXPECT_EQ(left.metadata, ptx.metadata) << function;
    EXPECT_TRUE(context_stack().empty()) << function;
  }
  ASSERT_EQ(log.size(), std::size(functions));
  EXPECT_THAT(log[1], AllOf(HasSubstr("CUDA_ERROR_222"), HasSubstr("ptxas error: line 3")));
}

// A driver without the functions that came with CUDA 12.
class OldGpuKernel : public FakeGpu {
 protected:
  OldGpuKernel() : FakeGpu(LATHE_FAKE_CUDA_BEFORE_12) {}
};
TEST_F(OldGpuKernel, LoadsWithoutTheNewFunctions) {
  auto driver = open();
  Step step = step_of("k");
  const auto plain = load(*driver, artifact_of({step}));
  EXPECT_TRUE((*state_->modules.begin())->functions.at("k").loaded);
  step.tensor_maps = {{"a", DType::kF16, Var::kK, Var::kM, 64, 128, 128}};
  step.argument_bytes = parameter_bytes(1);
  const auto mapped = load(*driver, artifact_of({step}));
  TestLaunch l(*mapped);
  const absl::Status status = driver->launch(l.launch);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message(status), HasSubstr("older than CUDA 12.0"));
}

}  // namespace
}  // namespace lathe
