#include "observe/trace.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/file_size_signal.h"
#include "core/json_object.h"
#include "observe/text_file.h"

namespace lathe {
namespace {

double microseconds(Trace::Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

}  // namespace

Trace::Trace(const std::string& path, const Logger& logger) {
  if (path.empty()) return;
  constexpr int kMode = S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH;
  const std::string name = path_of_process(path);
  const char* cause = nullptr;
  // The process that creates the file writes the start of the array.
  file_ = open_file(AT_FDCWD, name, O_WRONLY | O_APPEND | O_CREAT | O_EXCL, kMode);
  if (file_.valid()) {
    if (write_whole(file_.get(), "[\n").ok()) return;
    file_ = FileDescriptor();
  } else if (errno == EEXIST) {
    file_ = open_file(AT_FDCWD, name, O_WRONLY | O_APPEND);
    struct stat status;
    // Not a pipe: if its reader went away, SIGPIPE would end the host process.
    if (file_.valid() && (fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode))) {
      cause = "not a regular file";
      file_ = FileDescriptor();
    }
  }
  if (!file_.valid())
    logger.log(LogLevel::kWarning,
               absl::StrCat("cannot trace: ", name, ": ", cause != nullptr ? cause : std::strerror(errno)));
}

void Trace::span(const char* category, const std::string& name, Clock::time_point start,
                 Json arguments) const noexcept {
  if (!enabled()) return;
  try {
    const Json event =
        json_object("name", name, "cat", category, "ph", "X", "ts", microseconds(start.time_since_epoch()),
                    "dur", microseconds(Clock::now() - start), "pid", getpid(), "tid", syscall(SYS_gettid),
                    "args", std::move(arguments));
    const std::string line = canonical_text(event) + ",\n";
    const FileSizeSignalHeld held;
    // Continuing a short write would need a lock, so such an event is lost.
    (void)!write(file_.get(), line.data(), line.size());
  } catch (const std::exception&) {
    // Out of memory: the event is lost.
  }
}

}  // namespace lathe
