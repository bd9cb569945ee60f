// Rules by which a system may restrict a process. A child applies them to itself, and they end with it.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string>

namespace lathe {

// Runs `body` in a child process and returns its answer.
inline std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "cannot create a pipe";
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
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

// PR_SET_MDWE: memory that was not mapped as executable can never become executable. False before Linux 6.3.
inline bool refuse_gain_of_execution() {
  constexpr int kSetMdwe = 65;
  constexpr unsigned long kRefuseExecGain = 1;
  return prctl(kSetMdwe, kRefuseExecGain, 0UL, 0UL, 0UL) == 0;
}

// Like SELinux's execmem: making memory executable with mprotect fails with EACCES. With `files`,
// memfd_create fails too.
inline bool deny_execution(bool files) {
  const auto load = [](size_t at) {
    return sock_filter(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(at)));
  };
  const uint32_t none = ~0u;
  const sock_filter rules[] = {
      load(offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, files ? SYS_memfd_create : none, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
      load(offsetof(seccomp_data, args) + 2 * sizeof(uint64_t)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {std::size(rules), const_cast<sock_filter*>(rules)};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace lathe
