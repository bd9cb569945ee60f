// One lathe-compiler-process: a program that maps the compiler library and answers requests, so that whatever
// the compiler does costs the request and not the host.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "compile_client/compiler.h"

namespace lathe {

struct CompilerProcessOptions {
  std::string program;        // "": lathe-compiler-process beside this library
  std::string compiler_path;  // "": liblathe-compiler.so beside this library
  // A request that takes longer is an error, and the process is ended: but for one at SCHED_IDLE that wants
  // to run and is not let, which has ten times as long.
  double request_seconds = 120;
  uint64_t memory_bytes = uint64_t{8} << 30;  // of address space; ~0: no limit
  double idle_seconds = 60;                   // after which a process ends by itself
};

// How the kernel treats a thread, as a new process takes it over. Linux gives every thread its own.
struct ThreadPriority {
  int policy, nice;
  bool operator==(const ThreadPriority& o) const { return policy == o.policy && nice == o.nice; }
};
ThreadPriority thread_priority();

class CompilerProcess {
 public:
  // Starts one, at the calling thread's priority, and waits until it has mapped the library. kUnavailable
  // names the program or the library and the cause; kAborted: it died. No signal disposition of the host
  // changes and none of its files is passed on but stderr.
  static absl::StatusOr<std::unique_ptr<CompilerProcess>> start(const CompilerProcessOptions& options);
  // Ends it, with what it has started.
  ~CompilerProcess();

  // As Compiler::ask. kNotFound: it had said goodbye, and the request wants another process. After any error
  // this one is of no more use. kDeadlineExceeded after request_seconds; kAborted says how it ended.
  absl::StatusOr<int> ask(absl::string_view request, lathe_compiler_sink sink, void* user);
  // Whether it waits for a request: nothing has come from it since its last answer.
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
