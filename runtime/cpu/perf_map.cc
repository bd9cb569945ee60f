#include "runtime/cpu/perf_map.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/file_size_signal.h"
#include "base/standard_streams.h"

namespace lathe {
namespace {

// Null: all of it is there.
const char* append(const std::string& path, const std::string& text) {
  // No link is followed: the directory is everybody's.
  const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const int file = beyond_standard_streams(open(path.c_str(), flags, S_IRUSR | S_IWUSR));
  if (file < 0) return std::strerror(errno);
  struct stat status;
  const char* cause = nullptr;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
      status.st_nlink != 1) {
    cause = "it is no file of this user alone";
  } else {
    const FileSizeSignalHeld held;
    ssize_t written;
    do {
      written = write(file, text.data(), text.size());
    } while (written < 0 && errno == EINTR);
    // Continued, a line might have another's in its middle.
    if (written != static_cast<ssize_t>(text.size())) cause = written < 0 ? std::strerror(errno) : "no room";
  }
  close(file);
  return cause;
}

}  // namespace

std::string PerfMap::path() const { return absl::StrCat(directory_, "/perf-", getpid(), ".map"); }

void PerfMap::add(const std::vector<Code>& codes) const {
  std::string text;
  for (const Code& code : codes)
    absl::StrAppend(&text, absl::Hex(code.start), " ", absl::Hex(code.size), " ", code.name, "\n");
  if (text.empty()) return;
  const std::string file = path();
  if (const char* cause = append(file, text))
    logger_.log(LogLevel::kWarning, absl::StrCat("perf gets no names of kernels: ", file, ": ", cause));
}

}  // namespace lathe
