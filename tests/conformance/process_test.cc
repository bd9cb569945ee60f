// Several processes with one cache directory, a missing compiler library, and another LLVM in the same process.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "argmax_case.h"
#include "device.h"
#include "matmul_case.h"

namespace lathe::conformance {
namespace {

constexpr int kKernels = 5;  // the number of kernels that child_process requests

struct ChildResult {
  std::string line;  // the child's report
  std::string status;
  int wrong = -1, compiles = -1, disk_hits = -1, compiler_loaded = -1, mapped = -1;
};

std::string quoted(const std::string& text) { return "'" + text + "'"; }

FILE* start_child(const std::string& cache, const std::string& compiler = "",
                  const std::string& environment = "") {
  const std::string command = "env " + environment + " " + quoted(LATHE_CHILD_PROCESS) + " " + quoted(cache) +
                              (compiler.empty() ? "" : " " + quoted(compiler)) + " 2>&1";
  return popen(command.c_str(), "r");
}

ChildResult finish_child(FILE* pipe) {
  ChildResult result;
  std::string output;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe)) {
    output += buffer;
    const std::string line = buffer;
    if (line.compare(0, 7, "status=") != 0) continue;
    result.line = line;
    char status[64] = "";
    std::sscanf(buffer, "status=%63s wrong=%d compiles=%d disk_hits=%d compiler_loaded=%d mapped=%d", status,
                &result.wrong, &result.compiles, &result.disk_hits, &result.compiler_loaded, &result.mapped);
    result.status = status;
  }
  const int exit_status = pclose(pipe);
  EXPECT_EQ(exit_status, 0) << output;
  EXPECT_FALSE(result.line.empty()) << output;
  return result;
}

class Processes : public ConformanceTest {};

TEST_F(Processes, SecondProcessCompilesNothing) {
  const TemporaryDirectory cache;
  const ChildResult first = finish_child(start_child(cache.path()));
  EXPECT_EQ(first.status, "OK") << first.line;
  EXPECT_EQ(first.wrong, 0) << first.line;
  EXPECT_EQ(first.compiles, kKernels) << first.line;
  EXPECT_EQ(first.compiler_loaded, 1) << first.line;
  const ChildResult second = finish_child(start_child(cache.path()));
  EXPECT_EQ(second.status, "OK") << second.line;
  EXPECT_EQ(second.wrong, 0) << second.line;
  EXPECT_EQ(second.compiles, 0) << second.line;
  EXPECT_EQ(second.disk_hits, kKernels) << second.line;
  EXPECT_EQ(second.compiler_loaded, 0) << second.line;
  EXPECT_EQ(second.mapped, 0) << second.line;
}

TEST_F(Processes, FourAtOnceCompileEachKernelOnce) {
  const TemporaryDirectory cache;
  std::vector<FILE*> children;
  for (int i = 0; i < 4; ++i) children.push_back(start_child(cache.path()));
  int compiles = 0;
  for (FILE* child : children) {
    const ChildResult result = finish_child(child);
    EXPECT_EQ(result.status, "OK") << result.line;
    EXPECT_EQ(result.wrong, 0) << result.line;
    compiles += result.compiles;
  }
  EXPECT_EQ(compiles, kKernels);
}

TEST_F(Processes, ReportsMissingCompilerAndServesFromWarmCache) {
  const TemporaryDirectory cache;
  const std::string missing = cache.path() + "/no-such-compiler.so";
  const ChildResult cold = finish_child(start_child(cache.path(), missing));
  EXPECT_EQ(cold.status, "NOT_AVAILABLE") << cold.line;
  EXPECT_NE(cold.line.find(missing), std::string::npos) << "the message names the library: " << cold.line;
  EXPECT_NE(cold.line.find("matmul"), std::string::npos) << "the message names the request: " << cold.line;
  EXPECT_EQ(finish_child(start_child(cache.path())).status, "OK");
  const ChildResult warm = finish_child(start_child(cache.path(), missing));
  EXPECT_EQ(warm.status, "OK") << warm.line;
  EXPECT_EQ(warm.wrong, 0) << warm.line;
  EXPECT_EQ(warm.compiles, 0) << warm.line;
}

TEST_F(Processes, RefusesLibraryThatIsNotACompiler) {
  const TemporaryDirectory cache;
  const ChildResult stranger = finish_child(start_child(cache.path(), "libm.so.6"));
  EXPECT_EQ(stranger.status, "NOT_AVAILABLE") << stranger.line;
}

// Mesa, PyTorch and Triton load their own LLVM. Its symbols and options must not clash with Lathe's.
TEST_F(Processes, AnotherLlvmLoadedBeforeEverything) {
  if (!std::filesystem::exists(LATHE_FOREIGN_LLVM))
    GTEST_SKIP() << "there is no shared libLLVM: " LATHE_FOREIGN_LLVM;
  const TemporaryDirectory cache;
  const ChildResult result = finish_child(start_child(cache.path(), "", "LD_PRELOAD=" LATHE_FOREIGN_LLVM));
  EXPECT_EQ(result.status, "OK") << result.line;
  EXPECT_EQ(result.wrong, 0) << result.line;
  EXPECT_EQ(result.compiles, kKernels) << result.line;
}

TEST_F(Processes, AnotherLlvmLoadedGloballyBeforeTheCompiler) {
  if (!std::filesystem::exists(LATHE_FOREIGN_LLVM))
    GTEST_SKIP() << "there is no shared libLLVM: " LATHE_FOREIGN_LLVM;
  ASSERT_NE(dlopen(LATHE_FOREIGN_LLVM, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
  OpenDevice device(memory_only(2));
  ASSERT_EQ(device.status(), LATHE_OK) << lathe_last_error();
  Random random = random_stream(8);
  MatmulCase c;
  c.m = 19;
  c.n = 65;
  c.k = 77;
  c.activation = LATHE_ACTIVATION_GELU;
  EXPECT_TRUE(run_case(device.get(), c, &random));
  ArgmaxCase a;
  a.rows = 4;
  a.n = 999;
  EXPECT_TRUE(ArgmaxRequest(a, &random).run(device.get()));
  EXPECT_GE(device.statistics().compiles, 2u);
}

}  // namespace
}  // namespace lathe::conformance
