// lathe-compiler-process: loads the compiler library and answers requests, one after the other. Its standard input is
// a socket. Only liblathe starts it (compile_client/compiler_process.h).
//
// usage: lathe-compiler-process LIBRARY MEMORY_BYTES IDLE_SECONDS PARENT_PID
//
// It ends when its parent ends, even during a request; a separate thread watches the parent. PR_SET_PDEATHSIG is
// not used, since it reacts to the end of the parent's thread, and the threads of a warm-up are short-lived.
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "absl/strings/numbers.h"
#include "compile_client/compiler_library.h"
#include "compile_client/frame.h"
#include "core/key.h"

namespace lathe {
namespace {

constexpr int kSocket = STDIN_FILENO;

// The shadow memory of a sanitizer exceeds any limit.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LATHE_UNLIMITED
#endif
#endif

void limit_memory([[maybe_unused]] uint64_t bytes) {
#ifndef LATHE_UNLIMITED
  rlimit limit;
  if (bytes == ~uint64_t{0} || getrlimit(RLIMIT_AS, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(bytes, limit.rlim_max);
  setrlimit(RLIMIT_AS, &limit);
#endif
}

// Returns when the parent has ended or has closed its end of the socket.
void wait_for_end(pid_t parent) {
  constexpr int kLookAgain = 1000;  // ms; used if the kernel has no pidfd_open
  const int process = static_cast<int>(syscall(SYS_pidfd_open, parent, 0));
  pollfd polled[] = {{kSocket, POLLRDHUP, 0}, {process, POLLIN, 0}};
  while (getppid() == parent) {
    if (poll(polled, 2, process < 0 ? kLookAgain : -1) > 0) return;
  }
}

void pass_output(void*, int output, const char* name, const uint8_t* data, size_t size) {
  const absl::string_view body(reinterpret_cast<const char*>(data), size);
  // If the parent is gone, there is nobody to report an error to.
  if (!send_frame(kSocket, FrameKind::kOutput, output, name == nullptr ? "" : name, body, kNoDeadline).ok())
    _exit(0);
}

int serve(CompilerLibrary& library, double idle_seconds) {
  for (;;) {
    pollfd polled = {kSocket, POLLIN, 0};
    if (poll(&polled, 1, static_cast<int>(idle_seconds * 1000)) == 0) {
      (void)send_frame(kSocket, FrameKind::kGoodbye, 0, "", "", kNoDeadline);
      return 0;
    }
    const absl::StatusOr<Frame> request = receive_frame(kSocket, kNoDeadline);
    if (!request.ok() || request->kind != FrameKind::kRequest) return 0;
    const absl::StatusOr<int> result = library.ask(request->body, pass_output, nullptr);
    // The library is loaded, so the only possible error is that there is no memory for its stack.
    const int answer = result.ok() ? *result : LATHE_COMPILER_OUT_OF_MEMORY;
    if (!send_frame(kSocket, FrameKind::kResult, answer, "", "", kNoDeadline).ok()) return 0;
  }
}

int run(char** arguments) {
  uint64_t memory = 0;
  double idle = 0;
  int parent = 0;
  if (!absl::SimpleAtoi(arguments[2], &memory) || !absl::SimpleAtod(arguments[3], &idle) ||
      !absl::SimpleAtoi(arguments[4], &parent))
    return 2;
  syscall(SYS_close_range, 3u, ~0u, 0u);  // files that the host did not mark close-on-exec
  limit_memory(memory);
  std::thread([parent] {
    wait_for_end(parent);
    _exit(0);
  }).detach();
  CompilerLibrary library(arguments[1]);
  const absl::Status loaded = library.load();
  if (!loaded.ok()) {
    const int why = absl::IsResourceExhausted(loaded) ? LATHE_COMPILER_OUT_OF_MEMORY : 0;
    (void)send_frame(kSocket, FrameKind::kUnavailable, why, "", loaded.message(), kNoDeadline);
    return 1;
  }
  if (!send_frame(kSocket, FrameKind::kHello, 0, "", codegen_id(), kNoDeadline).ok()) return 0;
  return serve(library, idle);
}

}  // namespace
}  // namespace lathe

int main(int count, char** arguments) {
  int type = 0;
  socklen_t size = sizeof(type);
  if (count != 5 || getsockopt(STDIN_FILENO, SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
    std::fprintf(stderr, "lathe-compiler-process: only Lathe starts this program, with compiler=process\n");
    return 2;
  }
  int status = 1;
  try {
    status = lathe::run(arguments);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "lathe-compiler-process: %s\n", e.what());
  }
  // Skip destructors: LLVM's may crash while its threads still run.
  _exit(status);
}
