#include "compile_client/compiler_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/small_file.h"
#include "base/standard_streams.h"
#include "base/status.h"
#include "compile_client/beside_library.h"
#include "compile_client/frame.h"
#include "core/compiler_abi.h"
#include "core/key.h"

namespace lathe {
namespace {

std::string executable_of(const CompilerProcessOptions& options) {
  return options.executable.empty() ? beside_library("lathe-compiler-process") : options.executable;
}

std::string library_of(const CompilerProcessOptions& options) {
  return options.compiler_path.empty() ? beside_library("liblathe-compiler.so") : options.compiler_path;
}

absl::Status unavailable(const CompilerProcessOptions& options, absl::string_view cause) {
  return absl::UnavailableError(absl::StrCat("compiler process ", executable_of(options), ": ", cause));
}

Deadline deadline_of(const CompilerProcessOptions& options) {
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                                std::chrono::duration<double>(options.request_seconds));
}

// How often the deadline of a process that gets no processor is extended.
constexpr int kMostExtended = 9;

// The processor time that the process has used. 0: unknown.
double cpu_seconds(pid_t pid) {
  clockid_t clock = 0;
  timespec t = {};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0) return 0;
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// The settings of posix_spawn: default signals, and a process group of its own. So Ctrl-C in a terminal goes to the
// host only, and killing the group also ends what the process started.
class SpawnSettings {
 public:
  explicit SpawnSettings(int its_socket) {
    failed_ = posix_spawnattr_init(&attributes_);
    if (failed_ == 0) failed_ = posix_spawn_file_actions_init(&files_);
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    keep(posix_spawnattr_setsigdefault(&attributes_, &all));
    keep(posix_spawnattr_setsigmask(&attributes_, &none));
    keep(posix_spawnattr_setpgroup(&attributes_, 0));
    keep(posix_spawnattr_setflags(&attributes_,
                                  POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP));
    keep(posix_spawn_file_actions_adddup2(&files_, its_socket, STDIN_FILENO));
    keep(posix_spawn_file_actions_addopen(&files_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0));
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  // Returns 0 or an errno.
  int start(const std::string& program, char* const* arguments, pid_t* pid) {
    return failed_ != 0 ? failed_
                        : posix_spawn(pid, program.c_str(), &files_, &attributes_, arguments, environ);
  }

 private:
  void keep(int error) {
    if (failed_ == 0) failed_ = error;
  }
  posix_spawnattr_t attributes_;
  posix_spawn_file_actions_t files_;
  int failed_ = 0;
};

bool make_sockets(int (&sockets)[2]) {
  const StandardStreamsFilled filled;
  return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0;
}

}  // namespace

ThreadPriority thread_priority() {
  return {sched_getscheduler(0) & ~SCHED_RESET_ON_FORK, getpriority(PRIO_PROCESS, 0)};
}

absl::StatusOr<std::unique_ptr<CompilerProcess>> CompilerProcess::start(
    const CompilerProcessOptions& options) {
  int sockets[2];
  if (!make_sockets(sockets)) return unavailable(options, absl::StrCat("socketpair: ", strerror(errno)));
  std::unique_ptr<CompilerProcess> process;
  absl::Status status;
  try {
    process.reset(new CompilerProcess(options, sockets[0], thread_priority()));
    status = process->spawn(sockets[1]);
  } catch (...) {
    close(sockets[1]);
    if (process == nullptr) close(sockets[0]);
    throw;
  }
  close(sockets[1]);
  LATHE_RETURN_IF_ERROR(status);
  LATHE_RETURN_IF_ERROR(process->greet());
  return process;
}

absl::Status CompilerProcess::spawn(int its_socket) {
  std::string arguments[] = {executable_of(options_), library_of(options_),
                             absl::StrCat(options_.memory_bytes), absl::StrCat(options_.idle_seconds),
                             absl::StrCat(getpid())};
  char* pointers[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(),
                      arguments[3].data(), arguments[4].data(), nullptr};
  const int error = SpawnSettings(its_socket).start(arguments[0], pointers, &pid_);
  if (error == 0) return absl::OkStatus();
  pid_ = 0;
  if (error == ENOMEM)
    return absl::ResourceExhaustedError(
        absl::StrCat("compiler process ", arguments[0], ": out of memory to start it"));
  return unavailable(options_, strerror(error));
}

absl::Status CompilerProcess::greet() {
  const absl::StatusOr<Frame> hello = receive_frame(socket_, deadline_of(options_));
  if (!hello.ok()) return explain_end(hello.status());
  if (hello->kind == FrameKind::kUnavailable)
    return hello->value == LATHE_COMPILER_OUT_OF_MEMORY ? absl::ResourceExhaustedError(hello->body)
                                                        : absl::UnavailableError(hello->body);
  if (hello->kind != FrameKind::kHello) return unavailable(options_, "it is not a Lathe compiler process");
  if (hello->body == codegen_id()) return absl::OkStatus();
  return unavailable(options_,
                     absl::StrCat("its codegen id ", hello->body, " is not this library's ", codegen_id()));
}

CompilerProcess::~CompilerProcess() {
  close(socket_);
  // If the host has already waited for it, its id may belong to another process by now.
  siginfo_t info;
  if (pid_ <= 0 || waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return;
  kill(-pid_, SIGKILL);  // the whole group, since an assembler may be running
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool CompilerProcess::is_waiting() const {
  pollfd poll_for = {socket_, POLLIN, 0};
  return poll(&poll_for, 1, 0) == 0;
}

// Replaces `status` by how the process ended, if that is its cause. Waits up to a second, since a process that ends
// closes its socket first.
absl::Status CompilerProcess::explain_end(const absl::Status& status) {
  if (absl::IsDeadlineExceeded(status))
    return absl::DeadlineExceededError(
        absl::StrCat("the compiler process took more than ", options_.request_seconds, " s and was ended"));
  if (!absl::IsUnavailable(status))
    return absl::AbortedError(absl::StrCat("the compiler process: ", status.message()));
  siginfo_t info = {};
  for (int i = 0; i < 100 && info.si_pid == 0; ++i) {
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) break;
    if (info.si_pid == 0) usleep(10000);
  }
  if (info.si_pid == 0)
    return absl::AbortedError(absl::StrCat("the compiler process is gone: ", status.message()));
  if (info.si_code == CLD_EXITED)
    return absl::AbortedError(absl::StrCat("the compiler process ended with status ", info.si_status));
  const bool limited = info.si_status == SIGABRT && options_.memory_bytes != ~uint64_t{0};
  return absl::AbortedError(
      absl::StrCat("the compiler process was ended by signal ", info.si_status, " (",
                   sigdescr_np(info.si_status) ? sigdescr_np(info.si_status) : "unknown", ")",
                   limited ? absl::StrCat(", maybe because it reached its memory limit (compiler_bytes ",
                                          options_.memory_bytes, ")")
                           : ""));
}

// Whether the process is ready to run but has used less processor time than one request may take.
bool CompilerProcess::is_starved(double cpu_seconds_before) const {
  if (priority_.policy != SCHED_IDLE || cpu_seconds(pid_) - cpu_seconds_before >= options_.request_seconds)
    return false;
  constexpr size_t kMostStat = 4096;
  const std::optional<std::string> stat = read_small_file(absl::StrCat("/proc/", pid_, "/stat"), kMostStat);
  const size_t name_end = stat ? stat->rfind(')') : std::string::npos;
  return name_end != std::string::npos && absl::StartsWith(absl::string_view(*stat).substr(name_end), ") R");
}

absl::StatusOr<int> CompilerProcess::ask(absl::string_view request, lathe_compiler_sink sink, void* user) {
  Deadline deadline = deadline_of(options_);
  const double cpu_seconds_before = cpu_seconds(pid_);
  int extended = 0;
  // If sending fails, the process may have said goodbye; that is read below.
  const absl::Status sent = send_frame(socket_, FrameKind::kRequest, 0, "", request, deadline);
  if (!sent.ok() && !absl::IsUnavailable(sent)) return sent;
  for (;;) {
    const absl::Status waited = wait_for(socket_, POLLIN, deadline);
    if (absl::IsDeadlineExceeded(waited) && extended < kMostExtended && is_starved(cpu_seconds_before)) {
      ++extended;
      deadline = deadline_of(options_);
      continue;
    }
    const absl::StatusOr<Frame> frame = receive_frame(socket_, deadline);
    if (!frame.ok()) return explain_end(frame.status());
    switch (frame->kind) {
      case FrameKind::kOutput:
        sink(user, frame->value, frame->name.c_str(), reinterpret_cast<const uint8_t*>(frame->body.data()),
             frame->body.size());
        break;
      case FrameKind::kResult:
        // The process is out of memory, not the host.
        if (frame->value == LATHE_COMPILER_OUT_OF_MEMORY)
          return absl::AbortedError(absl::StrCat(
              "the compiler process reached its memory limit (compiler_bytes ", options_.memory_bytes, ")"));
        return frame->value;
      case FrameKind::kGoodbye:
        return absl::NotFoundError("the compiler process has ended because it was idle");
      default:
        return absl::AbortedError(absl::StrCat("the compiler process sent an unexpected frame of kind ",
                                               static_cast<int>(frame->kind)));
    }
  }
}

}  // namespace lathe
