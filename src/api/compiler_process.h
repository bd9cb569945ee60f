// One lathe-compiler-process: a program that maps the compiler library and answers requests, so that whatever
// the compiler does costs the request and not the host.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "api/compiler.h"

namespace lathe {

struct CompilerProcessOptions {
  std::string program;           // "": lathe-compiler-process beside this library
  std::string compiler_path;     // "": liblathe-compiler.so beside this library
  double request_seconds = 120;  // a request that takes longer is an error, and the process is ended
  uint64_t memory_bytes = uint64_t{8} << 30;  // of address space; ~0: no limit
  double idle_seconds = 60;                   // after which a process ends by itself
};

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
  int priority() const { return priority_; }
  pid_t pid() const { return pid_; }

 private:
  CompilerProcess(const CompilerProcessOptions& options, int socket, int priority)
      : options_(options), socket_(socket), priority_(priority) {}
  absl::Status spawn(int its_socket);
  absl::Status greet();
  absl::Status explain_end(const absl::Status& status);

  const CompilerProcessOptions& options_;
  const int socket_;
  const int priority_;
  pid_t pid_ = 0;
};

// Of the calling thread, as a new process takes it over: equal where policy and nice value are. Linux gives
// every thread its own.
int thread_priority();

}  // namespace lathe
