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

// Appends the whole text to the file. Returns null, or the cause of the failure.
const char* append(const std::string& path, const std::string& text) {
  // Do not follow links, because anybody can create files in /tmp.
  const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const int file = beyond_standard_streams(open(path.c_str(), flags, S_IRUSR | S_IWUSR));
  if (file < 0) return std::strerror(errno);
  struct stat status;
  const char* cause = nullptr;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
      status.st_nlink != 1) {
    cause = "it is not a regular file that only this user owns";
  } else {
    const FileSizeSignalHeld held;
    ssize_t written;
    do {
      written = write(file, text.data(), text.size());
    } while (written < 0 && errno == EINTR);
    // Do not continue a short write: another writer's line could end up inside a line.
    if (written != static_cast<ssize_t>(text.size())) cause = written < 0 ? std::strerror(errno) : "no space";
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
    logger_.log(LogLevel::kWarning,
                absl::StrCat("perf will not show kernel names: cannot write ", file, ": ", cause));
}

}  // namespace lathe
