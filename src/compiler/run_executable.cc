#include "compiler/run_executable.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/standard_streams.h"
#include "base/status.h"

namespace lathe {
namespace {

constexpr size_t kMostOutput = 1 << 20;
// The end of the pipe normally signals the program's end. This is the polling interval for a program that ended
// while another process still holds its output open.
constexpr int kPollMilliseconds = 20;

class Pipe {
 public:
  Pipe() {
    const StandardStreamsFilled filled;
    if (pipe2(ends_, O_CLOEXEC) != 0) ends_[0] = ends_[1] = -1;
  }
  ~Pipe() {
    close_writer();
    if (ends_[0] >= 0) close(ends_[0]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  bool ok() const { return ends_[0] >= 0; }
  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  void close_writer() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  int ends_[2];
};

// A null-terminated array of pointers into `texts`.
std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& t : texts) pointers.push_back(const_cast<char*>(t.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

absl::StatusOr<pid_t> start(const ExecutableRun& run, const Pipe& pipe) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, pipe.writer(), 1);
  posix_spawn_file_actions_adddup2(&files, pipe.writer(), 2);
  posix_spawn_file_actions_addclosefrom_np(&files, 3);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::vector<char*> arguments = pointers_to(run.arguments), environment = pointers_to(run.environment);
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, arguments[0], &files, &attributes, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return pid;
  return absl::NotFoundError(absl::StrCat(run.arguments[0], " cannot be started: ", strerror(error)));
}

enum class Reading { kSome, kNothingNow, kEnd };

Reading read_some(int fd, std::string* output) {
  char buffer[4096];
  const ssize_t n = read(fd, buffer, sizeof buffer);
  if (n < 0) return errno == EINTR || errno == EAGAIN ? Reading::kNothingNow : Reading::kEnd;
  output->append(buffer, std::min(kMostOutput - output->size(), static_cast<size_t>(n)));
  return n > 0 ? Reading::kSome : Reading::kEnd;
}

// Returns true if the program has ended, and sets *status (ExecutableResult::status).
bool has_ended(pid_t pid, int* status) {
  const pid_t waited = waitpid(pid, status, WNOHANG);
  if (waited == pid) return true;
  *status = -1;
  return waited < 0 && errno == ECHILD;
}

}  // namespace

absl::StatusOr<ExecutableResult> run_executable(const ExecutableRun& run) {
  Pipe pipe;
  if (!pipe.ok()) return errno_status(errno, "cannot create a pipe");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(run.timeout_seconds);
  LATHE_ASSIGN_OR_RETURN(const pid_t pid, start(run, pipe));
  pipe.close_writer();
  fcntl(pipe.reader(), F_SETFL, O_NONBLOCK);

  ExecutableResult result;
  for (bool open = true;;) {
    pollfd ready = {pipe.reader(), POLLIN, 0};
    // Once the output has ended, the end of the program follows at once, so poll often.
    poll(&ready, open ? 1 : 0, open ? kPollMilliseconds : 1);
    if (open && ready.revents != 0) {
      open = read_some(pipe.reader(), &result.output) != Reading::kEnd;
    } else if (has_ended(pid, &result.status)) {
      // Read what was written between the poll and the end. Stop when nothing is left, because another process
      // may hold the pipe open.
      while (open && result.output.size() < kMostOutput)
        open = read_some(pipe.reader(), &result.output) == Reading::kSome;
      return result;
    }
    if (std::chrono::steady_clock::now() > deadline) {
      kill(-pid, SIGKILL);
      waitpid(pid, &result.status, 0);
      return absl::DeadlineExceededError(
          absl::StrCat(run.arguments[0], " did not end within ", run.timeout_seconds, " s and was killed"));
    }
  }
}

}  // namespace lathe
