#include "cache/disk_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <memory>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cache/entry_file.h"

namespace lathe {
namespace {

constexpr absl::string_view kEntrySuffix = ".lathe", kLockSuffix = ".lock", kTemporaryPrefix = ".tmp-";
constexpr size_t kFingerprintSize = 32;
constexpr int64_t kMaxEntryBytes = int64_t{1}
                                   << 28;  // no kernel is near; a wild size must not exhaust memory
constexpr time_t kStaleSeconds = 3600;     // no publish takes an hour

std::string entry_name(const Key& key) { return absl::StrCat(key.fingerprint, kEntrySuffix); }

bool is_fingerprint(absl::string_view s) {
  return s.size() == kFingerprintSize && std::all_of(s.begin(), s.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}
bool is_named(absl::string_view name, absl::string_view suffix) {
  return absl::EndsWith(name, suffix) && is_fingerprint(name.substr(0, name.size() - suffix.size()));
}
bool is_entry(absl::string_view name) { return is_named(name, kEntrySuffix); }
bool is_lock(absl::string_view name) { return is_named(name, kLockSuffix); }
// ".tmp-", the fingerprint, "-", anything.
bool is_temporary(absl::string_view name) {
  const size_t size = kTemporaryPrefix.size() + kFingerprintSize;
  return absl::StartsWith(name, kTemporaryPrefix) && name.size() > size && name[size] == '-' &&
         is_fingerprint(name.substr(kTemporaryPrefix.size(), kFingerprintSize));
}

std::string absolute_path(std::string path) {
  if (path[0] != '/') {
    std::unique_ptr<char, decltype(&free)> here(getcwd(nullptr, 0), &free);
    if (here != nullptr) path = absl::StrCat(here.get(), "/", path);
  }
  // With a trailing slash the last component would be followed even if it is a symbolic link.
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// The names in an open directory.
std::vector<std::string> names_in(int directory) {
  std::vector<std::string> names;
  const int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* stream = copy < 0 ? nullptr : fdopendir(copy);
  if (stream == nullptr) {
    if (copy >= 0) close(copy);
    return names;
  }
  while (const dirent* entry = readdir(stream)) names.emplace_back(entry->d_name);
  closedir(stream);
  std::sort(names.begin(), names.end());
  return names;
}

// Reads and checks an entry whose key is not known yet: the file, the format, and that the key belongs to the
// name.
absl::StatusOr<DiskEntry> read_entry(int directory, const std::string& name, std::string* key_text) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  FileDescriptor file(openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) {
    if (errno == ELOOP) return absl::DataLossError("it is a symbolic link");
    if (errno == EACCES) return absl::DataLossError("it may not be read");
    return absl::ErrnoToStatus(errno, name);
  }
  struct stat s;
  if (fstat(file.get(), &s) != 0) return absl::ErrnoToStatus(errno, name);
  const std::string refusal = S_ISREG(s.st_mode) ? refusal_of(s) : "it is no regular file";
  if (!refusal.empty()) return absl::DataLossError(refusal);
  if (s.st_size > kMaxEntryBytes) return absl::DataLossError(absl::StrCat(s.st_size, " bytes are too many"));

  DiskEntry entry;
  entry.bytes.resize(static_cast<size_t>(s.st_size));
  for (size_t done = 0; done < entry.bytes.size();) {
    const ssize_t got = read(file.get(), &entry.bytes[done], entry.bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::DataLossError(std::string(absl::ErrnoToStatus(errno, "read").message()));
    if (got == 0) return absl::DataLossError("it shrank while being read");
    done += static_cast<size_t>(got);
  }
  LATHE_ASSIGN_OR_RETURN(const EntryView view, parse_entry(entry.bytes));
  *key_text = std::string(view.key_text);
  entry.payload_offset = static_cast<size_t>(view.payload.data() - entry.bytes.data());
  if (entry_name(key_from_text(*key_text)) != name)
    return absl::DataLossError("its key belongs to another name");
  return entry;
}

// A write beyond RLIMIT_FSIZE raises SIGXFSZ, which would end the host's process. Held back for this thread,
// the write fails with EFBIG instead and the signal is taken off the thread again.
class FileSizeSignalHeld {
 public:
  FileSizeSignalHeld() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~FileSizeSignalHeld() {
    const timespec no_wait = {0, 0};
    if (!sigismember(&before_, SIGXFSZ)) sigtimedwait(&signal_, nullptr, &no_wait);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  FileSizeSignalHeld(const FileSizeSignalHeld&) = delete;
  FileSizeSignalHeld& operator=(const FileSizeSignalHeld&) = delete;

 private:
  sigset_t signal_, before_;
};

absl::Status write_all(int file, absl::string_view bytes) {
  const FileSizeSignalHeld held;
  while (!bytes.empty()) {
    const ssize_t put = write(file, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return absl::ErrnoToStatus(errno, "write");
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  if (fsync(file) != 0) return absl::ErrnoToStatus(errno, "fsync");
  return absl::OkStatus();
}

// Unique among threads, processes, and machines that share the directory.
std::string temporary_name(const Key& key) {
  static std::atomic<uint64_t> counter{0};
  std::random_device random;
  return absl::StrCat(kTemporaryPrefix, key.fingerprint, "-", getpid(), "-", counter++, "-",
                      absl::Hex(random()));
}

}  // namespace

DiskStore::DiskStore(const std::string& directory, Logger logger)
    : directory_(absolute_path(directory)), logger_(std::move(logger)) {}

absl::Status DiskStore::check() const {
  const absl::Status status = open_private_directory(directory_).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::StatusOr<DiskEntry> DiskStore::read(const Key& key) const {
  LATHE_ASSIGN_OR_RETURN(const FileDescriptor directory, open_private_directory(directory_));
  std::string key_text;
  LATHE_ASSIGN_OR_RETURN(DiskEntry entry, read_entry(directory.get(), entry_name(key), &key_text));
  if (key_text != key.text) return absl::DataLossError("its key is another one");
  return entry;
}

absl::StatusOr<uint64_t> DiskStore::write(const Key& key, absl::string_view payload) {
  absl::StatusOr<uint64_t> written = publish(key, payload);
  if (!written.ok())
    logger_.log(warned_.exchange(true) ? LogLevel::kDebug : LogLevel::kWarning,
                absl::StrCat("cache: cannot write to ", directory_,
                             ", kernels are kept in memory only: ", written.status().message()));
  return written;
}

absl::StatusOr<uint64_t> DiskStore::publish(const Key& key, absl::string_view payload) {
  LATHE_ASSIGN_OR_RETURN(const FileDescriptor directory, make_private_directory(directory_));
  if (!swept_.exchange(true)) remove_stale_temporaries(directory.get());
  const std::string bytes = make_entry(key.text, payload);
  if (bytes.size() > static_cast<size_t>(kMaxEntryBytes))
    return absl::OutOfRangeError(absl::StrCat("an entry of ", bytes.size(), " bytes"));

  const std::string temporary = temporary_name(key);
  absl::Status status;
  {
    const FileDescriptor file(openat(directory.get(), temporary.c_str(),
                                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                     S_IRUSR | S_IWUSR));
    if (!file.valid()) return absl::ErrnoToStatus(errno, "open");
    status = write_all(file.get(), bytes);
  }
  if (status.ok() &&
      renameat(directory.get(), temporary.c_str(), directory.get(), entry_name(key).c_str()) != 0)
    status = absl::ErrnoToStatus(errno, "rename");
  if (!status.ok()) {
    unlinkat(directory.get(), temporary.c_str(), 0);
    return status;
  }
  fsync(directory.get());  // Some file systems refuse; losing the name in a crash is only a miss.
  return bytes.size();
}

KeyLock DiskStore::lock(const Key& key, double timeout_seconds) {
  const absl::StatusOr<FileDescriptor> directory = make_private_directory(directory_);
  if (!directory.ok()) return KeyLock();
  return KeyLock::acquire(directory->get(), absl::StrCat(key.fingerprint, kLockSuffix), timeout_seconds);
}

void DiskStore::remove_stale_temporaries(int directory) {
  const time_t now = time(nullptr);
  for (const std::string& name : names_in(directory)) {
    struct stat s;
    if (is_temporary(name) && fstatat(directory, name.c_str(), &s, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(s.st_mode) && s.st_uid == geteuid() && s.st_mtime < now - kStaleSeconds)
      unlinkat(directory, name.c_str(), 0);
  }
}

std::vector<CacheEntryInfo> DiskStore::list(uint64_t* rejected) const {
  std::vector<CacheEntryInfo> entries;
  *rejected = 0;
  const absl::StatusOr<FileDescriptor> directory = open_private_directory(directory_);
  if (!directory.ok()) return entries;
  for (const std::string& name : names_in(directory->get())) {
    if (!is_entry(name)) continue;
    CacheEntryInfo info;
    info.file = name;
    const absl::StatusOr<DiskEntry> entry = read_entry(directory->get(), name, &info.key_text);
    if (absl::IsNotFound(entry.status())) continue;  // removed meanwhile
    if (!entry.ok()) {
      ++*rejected;
      continue;
    }
    info.bytes = entry->bytes.size();
    entries.push_back(std::move(info));
  }
  return entries;
}

uint64_t DiskStore::clear() {
  uint64_t removed = 0;
  const absl::StatusOr<FileDescriptor> directory = open_private_directory(directory_);
  if (!directory.ok()) return removed;
  for (const std::string& name : names_in(directory->get())) {
    if (!is_entry(name) && !is_lock(name) && !is_temporary(name)) continue;
    if (unlinkat(directory->get(), name.c_str(), 0) == 0) removed += is_entry(name);
  }
  return removed;
}

}  // namespace lathe
