#include "cache/store_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <new>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "cache/file_io.h"

namespace lathe {
namespace {

constexpr absl::string_view kEntrySuffix = ".lathe", kRecordSuffix = ".record", kLockSuffix = ".lock",
                            kIdleSuffix = ".idle", kTemporaryPrefix = ".tmp-";
constexpr size_t kFingerprintSize = 32;
constexpr absl::string_view kHexDigits = "0123456789abcdef";
constexpr time_t kStaleSeconds = 3600;  // no publish takes an hour

bool is_named(absl::string_view name, absl::string_view suffix) {
  return absl::EndsWith(name, suffix) && is_fingerprint(name.substr(0, name.size() - suffix.size()));
}
// Whether the name is ".tmp-", a fingerprint, "-" and anything else.
bool is_temporary(absl::string_view name) {
  const size_t size = kTemporaryPrefix.size() + kFingerprintSize;
  return absl::StartsWith(name, kTemporaryPrefix) && name.size() > size && name[size] == '-' &&
         is_fingerprint(name.substr(kTemporaryPrefix.size(), kFingerprintSize));
}

// Identifies the running kernel by its boot id. That is the scope of file locks: containers on one machine
// share it, two machines never do. Zeros if it is unknown.
std::string read_host() {
  std::string id(36, '\0');
  const FileDescriptor file = open_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", O_RDONLY);
  if (!file.valid() || !read_whole(file.get(), &id).ok()) id.clear();
  id.erase(std::remove(id.begin(), id.end(), '-'), id.end());
  const bool known = id.size() >= kHostSize &&
                     absl::string_view(id).find_first_not_of(kHexDigits) == absl::string_view::npos;
  return known ? id.substr(0, kHostSize) : std::string(kHostSize, '0');
}
const std::string& host() {
  static const std::string id = read_host();
  return id;
}

// Unique among threads, processes, and machines that share the directory.
std::string temporary_name(absl::string_view prefix) {
  static std::atomic<uint64_t> counter{0};
  std::random_device random;
  return absl::StrCat(prefix, host(), "-", getpid(), "-", counter++, "-", absl::Hex(random()));
}

// Whether another machine made the temporary, by its name.
bool is_of_another_host(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '-');
  if (parts.size() < 4) return false;
  const absl::string_view of = parts[parts.size() - 4];
  return of.size() == kHostSize && of.find_first_not_of(kHexDigits) == absl::string_view::npos &&
         of != host();
}

// Renames the temporary to `name`. If a network loses the reply, the rename is repeated and finds no
// temporary. So on an error, check whether the file already has its name.
absl::Status give_name(int directory, const std::string& temporary, const std::string& name, int file) {
  if (renameat(directory, temporary.c_str(), directory, name.c_str()) == 0) return absl::OkStatus();
  const int error = errno;
  if (is_of_name(directory, name, file)) return absl::OkStatus();
  return error == ENOENT ? absl::AbortedError("the temporary file is gone") : errno_status(error, "rename");
}

// kAborted: a temporary of that name exists, or the temporary was reclaimed before it was locked or (if other
// machines do not see the lock) while it was locked.
absl::Status publish_once(int directory, const std::string& temporary, const std::string& name,
                          absl::string_view bytes, const Publishing& how) {
  const FileDescriptor file =
      open_file(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, how.mode);
  if (!file.valid()) {
    const int error = errno;
    unlinkat(directory, temporary.c_str(), 0);  // if only the reply was lost, the file exists
    return error == EEXIST ? absl::AbortedError("the temporary file exists already")
                           : errno_status(error, "open");
  }
  if (!lock_file(file.get(), LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
    return absl::AbortedError("reclaimed");
  absl::Status status = write_whole(file.get(), bytes);
  if (status.ok())
    status = how.durability == Durability::kWritten ? flush_file(file.get()) : sync_file(file.get());
  if (status.ok()) status = give_name(directory, temporary, name, file.get());
  if (!status.ok()) unlinkat(directory, temporary.c_str(), 0);
  return status;
}

}  // namespace

std::string entry_name(absl::string_view fingerprint) { return absl::StrCat(fingerprint, kEntrySuffix); }
std::string record_name(absl::string_view fingerprint) { return absl::StrCat(fingerprint, kRecordSuffix); }
std::string lock_name(absl::string_view fingerprint, Urgency urgency) {
  return absl::StrCat(fingerprint, urgency == Urgency::kNow ? kLockSuffix : kIdleSuffix);
}
bool is_fingerprint(absl::string_view text) {
  return text.size() == kFingerprintSize && std::all_of(text.begin(), text.end(), [](char c) {
           return kHexDigits.find(c) != absl::string_view::npos;
         });
}
bool is_entry(absl::string_view name) { return is_named(name, kEntrySuffix); }
bool is_record_file(absl::string_view name) { return is_named(name, kRecordSuffix); }
bool is_held(absl::string_view name) {
  return is_named(name, kLockSuffix) || is_named(name, kIdleSuffix) || is_temporary(name);
}
absl::string_view fingerprint_of(absl::string_view entry) { return entry.substr(0, kFingerprintSize); }

absl::StatusOr<std::vector<std::string>> names_in(int directory) {
  const auto failed = [](const char* call) {
    if (errno == ENOMEM) throw std::bad_alloc();  // like every other failed allocation
    return errno_status(errno, call);
  };
  std::vector<std::string> names;
  FileDescriptor copy = open_file(directory, ".", O_RDONLY | O_DIRECTORY);
  if (!copy.valid()) return failed("open");
  const std::unique_ptr<DIR, decltype(&closedir)> stream(fdopendir(copy.get()), closedir);
  if (stream == nullptr) return failed("fdopendir");
  copy.release();
  for (;;) {
    errno = 0;
    const dirent* entry = readdir(stream.get());
    if (entry == nullptr && errno != 0) return failed("readdir");
    if (entry == nullptr) break;
    names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  // A network file system may list a name twice if the directory changes during the read.
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

absl::Status publish_file(int directory, absl::string_view fingerprint, const std::string& name,
                          absl::string_view bytes, Durability durability) {
  return publish_through(directory, absl::StrCat(kTemporaryPrefix, fingerprint, "-"), name, bytes,
                         {S_IRUSR | S_IWUSR, durability});
}

absl::Status publish_through(int directory, const std::string& prefix, const std::string& name,
                             absl::string_view bytes, const Publishing& how) {
  // If other processes prune all the time, a temporary may be reclaimed between its creation and its lock,
  // rarely even twice in a row.
  constexpr int kAttempts = 8;
  absl::Status status = absl::AbortedError("");
  for (int i = 0; i < kAttempts && absl::IsAborted(status); ++i)
    status = publish_once(directory, temporary_name(prefix), name, bytes, how);
  if (status.ok() && how.durability == Durability::kSynced)
    fsync(directory);  // some file systems reject this
  return status;
}

bool is_of_name(int directory, const std::string& name, int file) {
  struct stat opened, named;
  return fstat(file, &opened) == 0 && fstatat(directory, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

bool reclaim(int directory, const std::string& name) {
  const FileDescriptor file = open_file(directory, name, O_RDWR | O_NOFOLLOW);
  struct stat s;
  if (!file.valid() || fstat(file.get(), &s) != 0 || !S_ISREG(s.st_mode) || s.st_uid != geteuid())
    return false;
  const bool locked = lock_file(file.get(), LOCK_EX | LOCK_NB);
  if (!locked && errno == EWOULDBLOCK) return false;
  // Some file systems have no locks. On others (NFS with local locks, Lustre, FUSE), machines do not see each
  // other's locks.
  const bool tells = locked && !is_of_another_host(name);
  if (!tells && std::abs(time(nullptr) - s.st_mtime) < kStaleSeconds) return false;
  // Between open and lock, the holder may have removed the file, and another process may have made and locked
  // a new one of that name. So compare the file with its name.
  return is_of_name(directory, name, file.get()) && unlinkat(directory, name.c_str(), 0) == 0;
}

}  // namespace lathe
