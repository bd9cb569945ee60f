// The compiler where the process may have little memory or no large files. A program of its own: what tests
// before it had freed would be memory.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <new>

#include "compiler_process.h"
#include "core/compiler_abi.h"
#include "core/json.h"

namespace lathe::testing {
namespace {

Target avx512() { return *parse_target("x86-64-avx512"); }

// LLVM and MLIR end the process where their containers find no memory, unless told what to do.
TEST(CompilerLimitsTest, TooLittleMemoryIsAnAnswer) {
  const Json request = {{"class", to_json(matmul_class(96, 177, 155))},
                        {"config", to_json(cpu_config("dot", avx512()))},
                        {"target", to_json(avx512())}};
  const std::string text = request.dump();
  ASSERT_EQ(compile_bytes(text).code, 0);
  int without_memory = 0;
  for (uint64_t room = 0; room <= 4 << 20; room += 160 << 10) {
    const pid_t child = fork();
    if (child == 0) {
      malloc_trim(0);  // what the first compilation left would serve another
      uint64_t pages = 0;
      std::ifstream("/proc/self/statm") >> pages;
      const rlim_t most = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + room;
      const rlimit limit = {most, most};
      setrlimit(RLIMIT_AS, &limit);
      try {
        _exit(compile_bytes(text).code);
      } catch (const std::bad_alloc&) {
        _exit(LATHE_COMPILER_OUT_OF_MEMORY);
      }
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << room << " bytes: signal " << WTERMSIG(status);
    EXPECT_TRUE(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == LATHE_COMPILER_OUT_OF_MEMORY)
        << room << " bytes: " << WEXITSTATUS(status);
    without_memory += WIFEXITED(status) && WEXITSTATUS(status) == LATHE_COMPILER_OUT_OF_MEMORY;
  }
  EXPECT_GT(without_memory, 0);
}

// lld's output is no file: a file size limit, or a full disk, would end the process.
TEST(CompilerLimitsTest, LinksForAmdWithoutADirectory) {
  const Json request = {{"class", to_json(matmul_class(33, 50, 70))},
                        {"config", to_json(simt_config())},
                        {"target", to_json(*parse_target("gfx942"))}};
  const CompilerAnswer answer = compile_bytes(request.dump());
  ASSERT_EQ(answer.code, 0) << answer.error;
  EXPECT_EQ(parse_artifact(answer.artifact)->format, CodeFormat::kHsaco);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_FSIZE, &none);
    const CompilerAnswer limited = compile_bytes(request.dump());
    // The input's memory file is one to the kernel.
    _exit(limited.code == 1 && limited.error.find("cannot write a memory file") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace lathe::testing
