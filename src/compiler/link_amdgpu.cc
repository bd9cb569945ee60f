#include "compiler/link_amdgpu.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "compiler/temporary_directory.h"
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

}  // namespace

absl::StatusOr<std::string> link_amdgpu(const std::string& object) {
  static std::mutex mutex;
  static bool usable = true;  // lld may say that its state is lost; it must not be called again then
  MemoryFile input;
  if (!input.ok() || !input.write(object))
    return absl::InternalError("no memory file for the linker's input");
  // lld replaces its output by renaming, so that one must have a name.
  TemporaryDirectory directory;
  LATHE_RETURN_IF_ERROR(directory.status());
  const std::string output = directory.file("kernel.hsaco"), in = input.path();
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
