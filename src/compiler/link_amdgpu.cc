#include "compiler/link_amdgpu.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_size_signal.h"
#include "base/own_thread.h"
#include "base/standard_streams.h"
#include "lld/Common/Driver.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

namespace lathe {
namespace {

std::string path_of(int fd) { return absl::StrCat("/proc/self/fd/", fd); }

// An anonymous file in memory. The destructor closes it.
class MemoryFile {
 public:
  MemoryFile() : fd_(beyond_standard_streams(memfd_create("lathe-link", MFD_CLOEXEC))) {}
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return path_of(fd_); }
  bool write(const std::string& bytes) {
    const FileSizeSignalHeld held;
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

// A pipe whose data a thread collects. lld writes its output to path(). A regular file is not safe as output:
// lld maps it and crashes if the disk is full, and it ends the process if it cannot rename the file.
class ReadPipe {
 public:
  ReadPipe() {
    const StandardStreamsFilled filled;
    if (pipe2(ends_, O_CLOEXEC) == 0) is_read_ = reader_.start([this] { read_all(); });
  }
  ~ReadPipe() {
    finish();
    if (ends_[0] >= 0) close(ends_[0]);
  }
  ReadPipe(const ReadPipe&) = delete;
  ReadPipe& operator=(const ReadPipe&) = delete;

  bool ok() const { return is_read_; }
  std::string path() const { return path_of(ends_[1]); }
  // Returns the data after the last write. Throws std::bad_alloc if memory ran out while reading.
  std::string take() {
    finish();
    if (lost_) throw std::bad_alloc();
    return std::move(bytes_);
  }

 private:
  void finish() {
    if (ends_[1] >= 0) close(std::exchange(ends_[1], -1));
    reader_.end();
  }
  void read_all() {
    char buffer[65536];
    ssize_t n;
    while ((n = read(ends_[0], buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR)) try {
        if (n > 0) bytes_.append(buffer, static_cast<size_t>(n));
      } catch (const std::bad_alloc&) {
        lost_ = true;
      }
  }

  int ends_[2] = {-1, -1};
  bool is_read_ = false, lost_ = false;
  std::string bytes_;
  OwnThread reader_;
};

}  // namespace

absl::StatusOr<std::string> link_amdgpu(const std::string& object) {
  static std::mutex mutex;
  static bool usable = true;  // false once lld reports that it cannot run again
  MemoryFile input;
  if (!input.write(object)) return absl::InternalError("cannot write a memory file for the linker's input");
  ReadPipe output;
  if (!output.ok()) return absl::InternalError("cannot create a pipe for the linker's output");
  const std::string in = input.path(), out_path = output.path();
  std::string out_text, error_text;
  llvm::raw_string_ostream out(out_text), error(error_text);
  std::vector<const char*> args = {"ld.lld", "-shared",        "--threads=1", "--build-id=none",
                                   "-o",     out_path.c_str(), in.c_str()};
  std::lock_guard<std::mutex> lock(mutex);
  if (!usable)
    return absl::InternalError("lld failed earlier and cannot run again in this process: restart it");
  usable = false;  // stays false if lld throws
  const lld::Result result = lld::lldMain(args, out, error, {{lld::Gnu, &lld::elf::link}});
  usable = result.canRunAgain;
  if (result.retCode != 0) return absl::AbortedError(absl::StrCat("lld: ", error_text));
  return output.take();
}

}  // namespace lathe
