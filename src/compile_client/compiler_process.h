// One lathe-compiler-process. It loads the compiler library and answers requests, so a crash of the compiler fails
// one request and does not harm the host.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "compile_client/compiler.h"

namespace lathe {

struct CompilerProcessOptions {
  std::string executable;     // "": lathe-compiler-process beside this library
  std::string compiler_path;  // "": liblathe-compiler.so beside this library
  // A request that takes longer fails and its process is killed. A SCHED_IDLE process that is ready to run but gets
  // no processor has ten times as long.
  double request_seconds = 120;
  uint64_t memory_bytes = uint64_t{8} << 30;  // limit of its address space; ~0: no limit
  double idle_seconds = 60;                   // without a request, a process ends after this time
};

// The scheduling of a thread; a process that the thread starts inherits it. On Linux it belongs to the thread.
struct ThreadPriority {
  int policy, nice;
  bool operator==(const ThreadPriority& o) const { return policy == o.policy && nice == o.nice; }
};
ThreadPriority thread_priority();

class CompilerProcess {
 public:
  // Starts a process at the calling thread's priority and waits until it has loaded the library. kUnavailable names
  // the executable or the library and the cause; kAborted: it died. The host's signal handlers do not change, and
  // of its open files the process gets stderr only.
  static absl::StatusOr<std::unique_ptr<CompilerProcess>> start(const CompilerProcessOptions& options);
  // Kills the process and all processes that it started.
  ~CompilerProcess();

  // As Compiler::ask. kDeadlineExceeded: it took longer than request_seconds; kAborted says how the process ended.
  // kNotFound: it had ended as idle before it read the request, so send that to another one. After any error this
  // object can only be destroyed.
  absl::StatusOr<int> ask(absl::string_view request, lathe_compiler_sink sink, void* user);
  // Whether it waits for a request, that is, it has sent nothing since its last answer.
  bool is_waiting() const;
  ThreadPriority priority() const { return priority_; }
  pid_t pid() const { return pid_; }

 private:
  CompilerProcess(const CompilerProcessOptions& options, int socket, ThreadPriority priority)
      : options_(options), socket_(socket), priority_(priority) {}
  absl::Status spawn(int its_socket);
  absl::Status greet();
  bool is_starved(double cpu_seconds_before) const;
  absl::Status explain_end(const absl::Status& status);

  const CompilerProcessOptions& options_;
  const int socket_;
  const ThreadPriority priority_;
  pid_t pid_ = 0;
};

}  // namespace lathe
