#include "compiler/link_amdgpu.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "lld/Common/Driver.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

namespace lathe {
namespace {

// An anonymous file in memory, closed with its scope.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("lathe-link", MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  bool ok() const { return fd_ >= 0; }
  std::string path() const { return absl::StrCat("/proc/self/fd/", fd_); }
  bool write(const std::string& bytes) {
    for (size_t done = 0; done < bytes.size();) {
      ssize_t n = ::write(fd_, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      done += static_cast<size_t>(n);
    }
    return true;
  }

 private:
  int fd_;
};

// A private directory in the temporary folder, removed with its one file: lld replaces its output by
// renaming, so that one must have a name.
class OutputDirectory {
 public:
  OutputDirectory() { made_ = mkdtemp(path_) != nullptr; }
  ~OutputDirectory() {
    if (!made_) return;
    unlink(file().c_str());
    rmdir(path_);
  }
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  bool ok() const { return made_; }
  std::string file() const { return absl::StrCat(path_, "/kernel.hsaco"); }

 private:
  char path_[24] = "/tmp/lathe-link-XXXXXX";
  bool made_ = false;
};

absl::StatusOr<std::string> read_file(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::InternalError("lld wrote no code object");
  std::string bytes;
  char buffer[65536];
  ssize_t n;
  while ((n = read(fd, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR))
    if (n > 0) bytes.append(buffer, static_cast<size_t>(n));
  close(fd);
  if (n < 0) return absl::InternalError("the code object that lld wrote cannot be read");
  return bytes;
}

}  // namespace

absl::StatusOr<std::string> link_amdgpu(const std::string& object) {
  static std::mutex mutex;
  static bool usable = true;  // lld may say that its state is lost; it must not be called again then
  MemoryFile input;
  if (!input.ok() || !input.write(object))
    return absl::InternalError("no memory file for the linker's input");
  OutputDirectory directory;
  if (!directory.ok()) return absl::InternalError("no temporary directory for the linker's output");
  const std::string output = directory.file(), in = input.path();
  std::string out_text, error_text;
  llvm::raw_string_ostream out(out_text), error(error_text);
  std::vector<const char*> args = {"ld.lld", "-shared",      "--threads=1", "--build-id=none",
                                   "-o",     output.c_str(), in.c_str()};
  std::lock_guard<std::mutex> lock(mutex);
  if (!usable) return absl::InternalError("lld failed for good earlier in this process");
  const lld::Result result = lld::lldMain(args, out, error, {{lld::Gnu, &lld::elf::link}});
  usable = result.canRunAgain;
  if (result.retCode != 0) return absl::AbortedError(absl::StrCat("lld: ", error_text));
  return read_file(output);
}

}  // namespace lathe
