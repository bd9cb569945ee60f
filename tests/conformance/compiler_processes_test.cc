// The real compiler in its own processes. A process ends during a request: out of memory, or a fatal error of LLVM. Only
// that request must fail. tests/compile_client/compiler_processes_test.cc has the other ends, with a fake compiler.
#include <gmock/gmock.h>
#include <lathe/pipelines.h>

#include <fstream>

#include "argmax_case.h"
#include "device.h"
#include "matmul_case.h"
#include "nlohmann/json.hpp"
#include "tests/compiler_children.h"

namespace lathe::conformance {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The built-in pipeline of matmul with as many canonicalizers as the text may contain. It compiles for half a second
// and needs 67 MB more than other kernels.
std::string long_pipeline() {
  std::string text =
      "for: matmul.cpu\n"
      "stages:\n"
      "  - name: distribute\n"
      "    passes: func.func(lathe-distribute),canonicalize,cse\n"
      "  - name: long\n"
      "    passes: canonicalize";
  for (int i = 0; i < 1100; ++i) text += ",canonicalize";
  return text +
         "\n"
         "  - name: kernel\n"
         "    emitter: matmul.cpu\n"
         "  - name: llvm\n"
         "    passes: >-\n"
         "      canonicalize,cse,func.func(lathe-expand-math),arith-expand{include-bf16=true},\n"
         "      convert-scf-to-cf,convert-vector-to-llvm,convert-math-to-llvm,finalize-memref-to-llvm,\n"
         "      convert-cf-to-llvm,convert-arith-to-llvm,convert-index-to-llvm,convert-ub-to-llvm,\n"
         "      convert-func-to-llvm,reconcile-unrealized-casts\n";
}

// The largest address space that the process has had.
uint64_t peak_bytes(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;) {
    uint64_t kilobytes = 0;
    if (word == "VmPeak:" && status >> kilobytes) return kilobytes << 10;
  }
  return 0;
}

class RealCompilerProcesses : public testing::Test {
 protected:
  void SetUp() override {
    if (!skip_reason().empty()) GTEST_SKIP() << skip_reason();
    SKIP_UNLESS_CPU("a compiler process is the same for every device");
    std::ofstream(pipeline_) << long_pipeline();
  }

  // A device that compiles argmax by the built-in pipeline and matmul by the long one.
  std::unique_ptr<OpenDevice> open(uint64_t bytes = UINT64_MAX) const {
    lathe_context_options options = memory_only(2);
    options.compiler = LATHE_COMPILER_PROCESS;
    options.compiler_program = LATHE_COMPILER_PROCESS_FILE;
    options.compiler_bytes = bytes;
    lathe_pipelines pipelines = LATHE_PIPELINES_INIT;
    const char* paths[] = {pipeline_.c_str()};
    pipelines.paths = paths;
    pipelines.count = 1;
    options.next = reinterpret_cast<const lathe_chain*>(&pipelines);
    auto device = std::make_unique<OpenDevice>(options);
    EXPECT_LATHE_OK(device->status());
    return device;
  }
  static lathe_status compile_long(OpenDevice& device) {
    MatmulCase c;
    c.m = 7, c.n = 64, c.k = 96;
    Random random = random_stream(1);
    MatmulRequest request(c, &random);
    request.reset_output();
    const lathe_status status = lathe_matmul(device.get(), nullptr, request.desc());
    if (status == LATHE_OK) EXPECT_TRUE(request.check());
    return status;
  }
  // Runs an ordinary request. True if its kernel was compiled and the result is right.
  bool serves(OpenDevice& device) {
    constexpr lathe_dtype kDTypes[] = {LATHE_F32, LATHE_F16, LATHE_BF16};
    ArgmaxCase c;
    c.rows = 4;
    c.n = 1000;
    c.in = kDTypes[served_++ % 3];
    Random random = random_stream(2);
    const uint64_t compiles = device.statistics().compiles;
    return ArgmaxRequest(c, &random).run(device.get()) && device.statistics().compiles == compiles + 1;
  }
  const TemporaryDirectory directory_;
  const std::string pipeline_ = directory_.path() + "/matmul.yaml";
  int served_ = 0;
};

TEST_F(RealCompilerProcesses, OutOfMemoryFailsOnlyItsRequest) {
  uint64_t usual = 0, most = 0;
  {
    const auto unlimited = open();
    ASSERT_TRUE(serves(*unlimited));
    const auto children = children_of(getpid());
    ASSERT_EQ(children.size(), 1u);
    usual = peak_bytes(children[0]);
    ASSERT_EQ(compile_long(*unlimited), LATHE_OK) << lathe_last_error();
    most = peak_bytes(children[0]);
  }
  ASSERT_GT(most, usual + (uint64_t{32} << 20)) << "the long pipeline must need much more memory";
  const auto device = open((usual + most) / 2);
  ASSERT_TRUE(serves(*device));
  EXPECT_EQ(compile_long(*device), LATHE_COMPILE_FAILED);
  EXPECT_THAT(lathe_last_error(), AllOf(HasSubstr("matmul f32"), HasSubstr("compiler_bytes")));
  EXPECT_TRUE(serves(*device));
  EXPECT_EQ(device->statistics().compiles, 2u);
  EXPECT_EQ(device->statistics().compile_failures, 1u);
  EXPECT_EQ(device->statistics().compiler_loaded, 0u);
}

// A 64-bit target without 64-bit code makes LLVM call report_fatal_error.
TEST_F(RealCompilerProcesses, LlvmFatalErrorFailsOnlyItsRequest) {
  const std::string facts = directory_.path() + "/facts.json";
  nlohmann::json json =
      nlohmann::json::parse(std::ifstream(LATHE_FACTS_DIRECTORY "/ryzen-7-5800u.json"), nullptr, true, true);
  json["target"] = {{"backend", "cpu"}, {"arch", "x86-64"}, {"features", "+avx2,+f16c,+fma,-64bit"}};
  std::ofstream(facts) << json;
  const auto device = open();
  lathe_device* described = nullptr;
  ASSERT_LATHE_OK(lathe_device_describe(device->context(), facts.c_str(), nullptr, &described));
  ArgmaxCase c;
  c.rows = 4;
  c.n = 500;
  Random random = random_stream(2);
  const ArgmaxRequest request(c, &random);
  lathe_plan* plan = nullptr;
  ASSERT_LATHE_OK(lathe_plan_argmax(described, request.desc(), &plan));
  const auto ignore = [](void*, const char*, const char*, size_t) {};
  EXPECT_EQ(lathe_plan_dump(plan, nullptr, ignore, nullptr), LATHE_COMPILE_FAILED);
  EXPECT_THAT(lathe_last_error(), AllOf(HasSubstr("argmax f32"), HasSubstr("64-bit code requested")));
  lathe_plan_destroy(plan);
  lathe_device_close(described);
  EXPECT_TRUE(serves(*device));
}

}  // namespace
}  // namespace lathe::conformance
