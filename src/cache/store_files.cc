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
#include "base/status.h"
#include "cache/file_io.h"

namespace lathe {
namespace {

constexpr absl::string_view kEntrySuffix = ".lathe", kRecordSuffix = ".record", kLockSuffix = ".lock",
                            kIdleSuffix = ".idle", kTemporaryPrefix = ".tmp-";
constexpr size_t kFingerprintSize = 32;
constexpr time_t kStaleSeconds = 3600;  // no publish takes an hour

bool is_named(absl::string_view name, absl::string_view suffix) {
  return absl::EndsWith(name, suffix) && is_fingerprint(name.substr(0, name.size() - suffix.size()));
}
// ".tmp-", the fingerprint, "-", anything.
bool is_temporary(absl::string_view name) {
  const size_t size = kTemporaryPrefix.size() + kFingerprintSize;
  return absl::StartsWith(name, kTemporaryPrefix) && name.size() > size && name[size] == '-' &&
         is_fingerprint(name.substr(kTemporaryPrefix.size(), kFingerprintSize));
}

// Unique among threads, processes, and machines that share the directory.
std::string temporary_name(absl::string_view prefix) {
  static std::atomic<uint64_t> counter{0};
  std::random_device random;
  return absl::StrCat(prefix, getpid(), "-", counter++, "-", absl::Hex(random()));
}

// kAborted: the temporary was reclaimed before it was held, or (where locks do not reach from machine to
// machine) while it was.
absl::Status publish_once(int directory, const std::string& temporary, const std::string& name,
                          absl::string_view bytes, const Publishing& how) {
  {
    const FileDescriptor file =
        open_file(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, how.mode);
    if (!file.valid()) return absl::ErrnoToStatus(errno, "open");
    if (!lock_file(file.get(), LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
      return absl::AbortedError("reclaimed");
    absl::Status status = write_whole(file.get(), bytes);
    if (status.ok() && how.durability != Durability::kWritten) status = sync_file(file.get());
    if (status.ok() && renameat(directory, temporary.c_str(), directory, name.c_str()) == 0) return status;
    if (status.ok() && errno == ENOENT) return absl::AbortedError("the temporary file is gone");
    if (status.ok()) status = absl::ErrnoToStatus(errno, "rename");
    unlinkat(directory, temporary.c_str(), 0);
    return status;
  }
}

}  // namespace

std::string entry_name(absl::string_view fingerprint) { return absl::StrCat(fingerprint, kEntrySuffix); }
std::string record_name(absl::string_view fingerprint) { return absl::StrCat(fingerprint, kRecordSuffix); }
std::string lock_name(absl::string_view fingerprint, Urgency urgency) {
  return absl::StrCat(fingerprint, urgency == Urgency::kNow ? kLockSuffix : kIdleSuffix);
}
bool is_fingerprint(absl::string_view text) {
  return text.size() == kFingerprintSize && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
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
    if (errno == ENOMEM) throw std::bad_alloc();  // as every allocation that fails
    return absl::ErrnoToStatus(errno, call);
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
  return names;
}

absl::Status publish_file(int directory, absl::string_view fingerprint, const std::string& name,
                          absl::string_view bytes, Durability durability) {
  return publish_through(directory, absl::StrCat(kTemporaryPrefix, fingerprint, "-"), name, bytes,
                         {S_IRUSR | S_IWUSR, durability});
}

absl::Status publish_through(int directory, const std::string& prefix, const std::string& name,
                             absl::string_view bytes, const Publishing& how) {
  // Where processes prune all the time, a writer on a busy machine loses its temporary twice in a row now and
  // then, between making and locking it: seen in one of some 10,000 writes.
  constexpr int kAttempts = 8;
  absl::Status status = absl::AbortedError("");
  for (int i = 0; i < kAttempts && absl::IsAborted(status); ++i)
    status = publish_once(directory, temporary_name(prefix), name, bytes, how);
  if (status.ok() && how.durability == Durability::kSynced) fsync(directory);  // some file systems refuse
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
  if (!lock_file(file.get(), LOCK_EX | LOCK_NB)) {
    if (errno == EWOULDBLOCK || std::abs(time(nullptr) - s.st_mtime) < kStaleSeconds) return false;
  }
  // Between opening and locking its holder may have removed it, and another have made and locked one of its
  // name: two of 287,000 compiles of a soak were of a key that was there already.
  return is_of_name(directory, name, file.get()) && unlinkat(directory, name.c_str(), 0) == 0;
}

}  // namespace lathe
