#include "tests/gpu/emulator/hip/worker.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace lathe::emulator {
namespace {

constexpr int kArenaFile = 3;  // file descriptor of device memory in the worker process

std::string missing() {
  for (const char* name : {"LATHE_AMD_EMULATE", "TINYGRAD"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == 0) return absl::StrCat("$", name, " is not set");
    if (access(value, R_OK) != 0) return absl::StrCat("$", name, " does not name a readable file: ", value);
  }
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Worker>> Worker::start(const Arena& arena) {
  if (const std::string cause = missing(); !cause.empty())
    return absl::UnavailableError(absl::StrCat("no emulator: ", cause));
  std::signal(SIGPIPE, SIG_IGN);  // if the process has ended, a write fails instead of raising a signal
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
    return absl::UnavailableError("cannot create a pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to[0], 0);
  posix_spawn_file_actions_adddup2(&actions, from[1], 1);
  posix_spawn_file_actions_adddup2(&actions, arena.file(), kArenaFile);
  const char* const arguments[] = {LATHE_PYTHON, LATHE_AMD_WORKER, nullptr};
  std::unique_ptr<Worker> worker(new Worker);
  const int failed = posix_spawn(&worker->process_, LATHE_PYTHON, &actions, nullptr,
                                 const_cast<char* const*>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(to[0]);
  close(from[1]);
  worker->requests_ = fdopen(to[1], "w");
  worker->answers_ = fdopen(from[0], "r");
  if (failed != 0)
    return absl::UnavailableError(absl::StrCat("cannot run ", LATHE_PYTHON, ": ", std::strerror(failed)));
  if (const auto ready = worker->answer(); !ready.ok())
    return absl::UnavailableError(absl::StrCat("the emulator does not start: ", ready.status().message()));
  const auto mapped =
      worker->ask(absl::StrCat("arena ", arena.base(), " ", arena.capacity(), " ", kArenaFile));
  if (!mapped.ok()) return absl::UnavailableError(mapped.status().message());
  return worker;
}

Worker::~Worker() {
  if (requests_ != nullptr) std::fclose(requests_);
  if (answers_ != nullptr) std::fclose(answers_);
  if (process_ > 0) waitpid(process_, nullptr, 0);
}

absl::StatusOr<std::string> Worker::answer() {
  char* line = nullptr;
  size_t room = 0;
  const ssize_t length = getline(&line, &room, answers_);
  const std::string text(line == nullptr || length < 0 ? "" : line);
  std::free(line);
  if (length < 0)
    return absl::AbortedError(
        "the process that runs kernels has ended, probably because of a fault in a kernel");
  absl::string_view rest = absl::StripSuffix(text, "\n");
  if (absl::ConsumePrefix(&rest, "ok")) return std::string(absl::StripPrefix(rest, " "));
  absl::ConsumePrefix(&rest, "error ");
  return absl::InternalError(rest);
}

absl::StatusOr<std::string> Worker::ask(const std::string& request) {
  std::fprintf(requests_, "%s\n", request.c_str());
  std::fflush(requests_);
  return answer();
}

}  // namespace lathe::emulator
