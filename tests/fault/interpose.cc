#include "interpose.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <set>
#include <utility>

namespace {

using lathe::fault::Plan;
using lathe::fault::Way;

bool armed = false, fired = false, names_twice = false;
lathe::fault::Locks locks = lathe::fault::Locks::kReal;
std::function<void()> ahead_of_flock;
Plan plan;
int64_t calls = 0;
const char* failed = "";
std::set<std::pair<dev_t, ino_t>> unsynced;

template <typename F>
F* real(F*, const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}
#define REAL(name)                                                              \
  ([] {                                                                         \
    static const auto f = real(static_cast<decltype(&::name)>(nullptr), #name); \
    return f;                                                                   \
  }())

// Counts the call. Returns whether it must fail; errno is then set.
bool fails(const char* name) {
  if (!armed) return false;
  ++calls;
  const bool hit = plan.way == Way::kCrash ? calls >= plan.index : calls == plan.index;
  if (!hit || plan.way == Way::kShort || plan.way == Way::kLost) return false;
  if (!std::exchange(fired, true)) failed = name;
  errno = plan.way == Way::kCrash ? EIO : plan.error;
  return true;
}

// As fails(), for a call that moves `*count` bytes, which may be halved instead.
bool fails_or_shortens(const char* name, size_t* count) {
  if (fails(name)) return true;
  if (armed && plan.way == Way::kShort && calls == plan.index && *count > 1) {
    fired = true;
    failed = name;
    *count /= 2;
  }
  // A call without a count cannot be shortened, but counts as reached, so that the campaign goes on.
  return false;
}

// For a call that has changed a directory and returned `result`: returns -1 if its reply must be lost.
int unless_lost(const char* name, int result, int found_by_another) {
  if (!armed || plan.way != Way::kLost || calls != plan.index || result != 0 || std::exchange(fired, true))
    return result;
  failed = name;
  errno = plan.error != 0 ? plan.error : found_by_another;
  return -1;
}

void note(int file, bool dirty) {
  struct stat s;
  if (!armed || REAL(fstat)(file, &s) != 0) return;
  if (dirty)
    unsynced.insert({s.st_dev, s.st_ino});
  else
    unsynced.erase({s.st_dev, s.st_ino});
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

}  // namespace

extern "C" {

int openat(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  if (fails("openat")) return -1;
  const int file = REAL(openat)(directory, path, flags, mode);
  if (file < 0 || (flags & O_EXCL) == 0 || unless_lost("openat", 0, EEXIST) == 0) return file;
  const int error = errno;
  REAL(close)(file);
  errno = error;
  return -1;
}
ssize_t read(int file, void* into, size_t count) {
  return fails_or_shortens("read", &count) ? -1 : REAL(read)(file, into, count);
}
ssize_t pread(int file, void* into, size_t count, off_t at) {
  return fails_or_shortens("pread", &count) ? -1 : REAL(pread)(file, into, count, at);
}
ssize_t write(int file, const void* from, size_t count) {
  if (fails_or_shortens("write", &count)) return -1;
  note(file, /*dirty=*/true);
  return REAL(write)(file, from, count);
}
int fsync(int file) {
  if (fails("fsync")) return -1;
  note(file, /*dirty=*/false);
  return REAL(fsync)(file);
}
int fstat(int file, struct stat* s) { return fails("fstat") ? -1 : REAL(fstat)(file, s); }
int stat(const char* path, struct stat* s) { return fails("stat") ? -1 : REAL(stat)(path, s); }
int lstat(const char* path, struct stat* s) { return fails("lstat") ? -1 : REAL(lstat)(path, s); }
int fstatat(int directory, const char* path, struct stat* s, int flags) {
  return fails("fstatat") ? -1 : REAL(fstatat)(directory, path, s, flags);
}
int mkdir(const char* path, mode_t mode) {
  return fails("mkdir") ? -1 : unless_lost("mkdir", REAL(mkdir)(path, mode), EEXIST);
}
int rename(const char* from, const char* to) { return fails("rename") ? -1 : REAL(rename)(from, to); }
int renameat(int a, const char* from, int b, const char* to) {
  return fails("renameat") ? -1 : unless_lost("renameat", REAL(renameat)(a, from, b, to), ENOENT);
}
int unlink(const char* path) { return fails("unlink") ? -1 : REAL(unlink)(path); }
int unlinkat(int directory, const char* path, int flags) {
  return fails("unlinkat") ? -1 : unless_lost("unlinkat", REAL(unlinkat)(directory, path, flags), ENOENT);
}
int flock(int file, int operation) {
  if (ahead_of_flock) std::exchange(ahead_of_flock, nullptr)();
  if (locks == lathe::fault::Locks::kOwn) return 0;
  if (locks == lathe::fault::Locks::kNone) {
    errno = ENOLCK;
    return -1;
  }
  return fails("flock") ? -1 : REAL(flock)(file, operation);
}
int fcntl(int file, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  return command == F_DUPFD_CLOEXEC && fails("fcntl") ? -1 : REAL(fcntl)(file, command, argument);
}
DIR* fdopendir(int file) { return fails("fdopendir") ? nullptr : REAL(fdopendir)(file); }
struct dirent* readdir(DIR* stream) {
  static struct dirent* last = nullptr;
  if (fails("readdir")) return nullptr;
  if (names_twice && last != nullptr) return std::exchange(last, nullptr);
  return last = REAL(readdir)(stream);
}
// The file is closed even if close fails, as on Linux.
int close(int file) {
  const bool fail = fails("close");
  const int error = errno, result = REAL(close)(file);
  if (!fail) return result;
  errno = error;
  return -1;
}

}  // extern "C"

namespace lathe::fault {

void arm(const Plan& p) {
  plan = p;
  calls = 0;
  fired = false;
  failed = "";
  unsynced.clear();
  armed = true;
}

bool disarm() {
  armed = false;
  return calls >= plan.index;
}

const char* failed_call() { return failed; }

void lose_unsynced(const std::string& directory, double part) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    struct stat s;
    if (REAL(lstat)(entry.path().c_str(), &s) != 0 || !S_ISREG(s.st_mode)) continue;
    if (unsynced.count({s.st_dev, s.st_ino}) != 0)
      (void)!truncate(entry.path().c_str(), static_cast<off_t>(static_cast<double>(s.st_size) * part));
  }
}

void before_next_flock(std::function<void()> call) { ahead_of_flock = std::move(call); }
void set_locks(Locks l) { locks = l; }
void set_names_twice(bool twice) { names_twice = twice; }

}  // namespace lathe::fault
