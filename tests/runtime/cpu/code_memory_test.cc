// Code is loaded, or refused with the system's cause, where the system guards what becomes executable.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <functional>
#include <string>

#include "../test_kernels.h"
#include "core/args.h"
#include "runtime/cpu/object_loader.h"

namespace lathe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kSkipped = "skipped: ";

// What `body` answers in a process of its own, whose rules end with it.
std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const std::string answer = body();
    _exit(write(ends[1], answer.data(), answer.size()) == static_cast<ssize_t>(answer.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string answer(4096, '\0');
  size_t size = 0;
  for (ssize_t got; (got = read(ends[0], &answer[size], answer.size() - size)) > 0;)
    size += static_cast<size_t>(got);
  close(ends[0]);
  answer.resize(size);
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0 ? answer : "the child ended with status " + std::to_string(status);
}

// PR_SET_MDWE, Linux 6.3: nothing that was not executable when it was mapped becomes executable.
bool refuse_gain_of_execution() {
  constexpr int kSetMdwe = 65;
  constexpr unsigned long kRefuseExecGain = 1;
  return prctl(kSetMdwe, kRefuseExecGain, 0L, 0L, 0L) == 0;
}

// mprotect to executable fails with EACCES, as by SELinux's execmem; and so does memfd_create if `files` too.
bool deny_execution(bool files) {
  const auto load = [](size_t at) {
    return sock_filter(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(at)));
  };
  const sock_filter deny = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES);
  const sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  sock_filter rules[] = {
      load(offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(files ? SYS_memfd_create : -1), 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
      load(offsetof(seccomp_data, args) + 2 * sizeof(uint64_t)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
      deny,
      allow,
  };
  const sock_fprog program = {std::size(rules), rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Loads and runs a kernel with constants, data and calls; "" if it is right.
std::string load_and_run() {
  ObjectLoader loader;
  const absl::StatusOr<std::vector<void*>> linked =
      loader.link(read_test_object("relocations"), {"relocations"});
  if (!linked.ok()) return std::string(linked.status().ToString());
  float out[4] = {};
  ArgumentBlock args;
  args.d = out;
  for (int64_t task = 0; task < 4; ++task) reinterpret_cast<CpuTask>((*linked)[0])(&args, task);
  return out[0] == 42.0f && out[3] == 3.5f * 3 + 41 ? "" : "it computes something else";
}

TEST(CodeMemory, LoadsWhereNothingMayGainExecution) {
  const std::string answer = in_child([]() -> std::string {
    if (!refuse_gain_of_execution()) return std::string(kSkipped) + "no PR_SET_MDWE";
    return load_and_run();
  });
  if (answer.find(kSkipped) == 0) GTEST_SKIP() << answer;
  EXPECT_EQ(answer, "");
}

TEST(CodeMemory, LoadsThroughAMappedFileWhereMprotectIsDenied) {
  const std::string answer = in_child([]() -> std::string {
    if (!deny_execution(/*files=*/false)) return std::string(kSkipped) + "no seccomp";
    return load_and_run();
  });
  if (answer.find(kSkipped) == 0) GTEST_SKIP() << answer;
  EXPECT_EQ(answer, "");
}

TEST(CodeMemory, IsUnavailableWithBothCausesWhereFilesAreDeniedToo) {
  const std::string answer = in_child([]() -> std::string {
    if (!deny_execution(/*files=*/true)) return std::string(kSkipped) + "no seccomp";
    return load_and_run();
  });
  if (answer.find(kSkipped) == 0) GTEST_SKIP() << answer;
  EXPECT_THAT(answer, AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("mprotect: Permission denied"),
                            HasSubstr("memfd_create: Permission denied")));
}

TEST(CodeMemory, NamesTheLackOfMemory) {
  ObjectLoader loader;
  const absl::Status status = loader.link(read_test_object("huge"), {"first"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("bytes of code: mmap: Cannot allocate memory"));
  EXPECT_EQ(load_and_run(), "");
}

}  // namespace
}  // namespace lathe
