// The compiler under limits of memory and file size. This is a separate program, because memory that earlier tests
// freed would be available again.
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

// Without a handler, LLVM and MLIR end the process if they run out of memory.
TEST(CompilerLimitsTest, ReportsOutOfMemory) {
  const Json request = {{"class", to_json(matmul_class(96, 177, 155))},
                        {"config", to_json(cpu_config("dot", avx512()))},
                        {"target", to_json(avx512())}};
  const std::string text = request.dump();
  ASSERT_EQ(compile_bytes(text).code, 0);
  int without_memory = 0;
  for (uint64_t room = 0; room <= 4 << 20; room += 160 << 10) {
    const pid_t child = fork();
    if (child == 0) {
      malloc_trim(0);  // otherwise memory that the first compilation freed would be reused
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

// lld must not write to a file, because a file size limit or a full disk would end the process.
TEST(CompilerLimitsTest, LinksForAmdWithoutAFile) {
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
    // The limit applies to the memory file of the input too, so its write must fail with an error.
    _exit(limited.code == 1 && limited.error.find("cannot write a memory file") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace lathe::testing
