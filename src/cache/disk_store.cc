#include "cache/disk_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/absolute_path.h"
#include "base/status.h"
#include "cache/entry_file.h"
#include "cache/eviction.h"
#include "cache/file_io.h"
#include "cache/private_directory.h"
#include "cache/store_files.h"
#include "cache/use_journal.h"

namespace lathe {
namespace {

constexpr int64_t kMaxEntryBytes = int64_t{1}
                                   << 28;  // far above any kernel; a damaged size cannot exhaust memory
// Eviction goes down to this fraction of the cap. The directory is then read again (a stat per entry) after a
// sixteenth of the free space has been written. One writer never exceeds the cap; each of several writers may
// exceed it by one entry or one such sixteenth until the next one looks.
constexpr uint64_t kGoalNumerator = 7, kGoalDenominator = 8, kLooks = 16;

constexpr int kReplacements = 3;  // retries if an entry is replaced during a read

// Returns the path unchanged if the current directory does not exist; check() rejects that.
std::string directory_path(const std::string& given) {
  std::string path = absolute_path(given).value_or(given);
  // A trailing slash would make the system follow a symbolic link as the last component.
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string name_of(EntryKind kind, absl::string_view fingerprint) {
  return kind == EntryKind::kRecord ? record_name(fingerprint) : entry_name(fingerprint);
}
EntryKind kind_of(absl::string_view name) {
  return is_record_file(name) ? EntryKind::kRecord : EntryKind::kArtifact;
}
// How a use is recorded in the journal: uses of records are not counted.
UseKind use_of(EntryKind kind, UseKind use) { return kind == EntryKind::kRecord ? UseKind::kUncounted : use; }

// Reads an entry whose key is not known yet. Checks the file, the format, and that the name belongs to the
// key.
absl::StatusOr<DiskEntry> read_entry(int directory, const std::string& name, std::string* key_text) {
  FileDescriptor file = open_file(directory, name, O_RDONLY | O_NOFOLLOW);
  if (!file.valid()) {
    if (errno == ELOOP) return absl::DataLossError("it is a symbolic link");
    if (errno == EACCES) return absl::DataLossError("there is no permission to read it");
    return errno_status(errno, name);
  }
  struct stat s;
  if (fstat(file.get(), &s) != 0) return errno_status(errno, name);
  const std::string refusal = S_ISREG(s.st_mode) ? refusal_of(s) : "it is not a regular file";
  if (!refusal.empty()) return absl::DataLossError(refusal);
  if (s.st_size > kMaxEntryBytes)
    return absl::DataLossError(absl::StrCat("it has ", s.st_size, " bytes, the limit is ", kMaxEntryBytes));

  DiskEntry entry;
  entry.bytes.resize(static_cast<size_t>(s.st_size));
  entry.age_seconds = std::max<int64_t>(0, time(nullptr) - s.st_mtime);
  if (const absl::Status status = read_whole(file.get(), &entry.bytes); !status.ok())
    return absl::IsNotFound(status) || absl::IsDataLoss(status) ? status
                                                                : absl::UnavailableError(status.message());
  LATHE_ASSIGN_OR_RETURN(const EntryView view, parse_entry(entry.bytes));
  *key_text = std::string(view.key_text);
  entry.payload_offset = static_cast<size_t>(view.payload.data() - entry.bytes.data());
  if (name_of(kind_of(name), key_from_text(*key_text).fingerprint) != name)
    return absl::DataLossError("its name is not that of its key");
  return entry;
}

// Whether the file was removed. ESTALE is not a removal: the file may only be unreachable for a moment.
bool is_gone(int directory, const std::string& name) {
  struct stat s;
  return fstatat(directory, name.c_str(), &s, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
}

// Lists a file that is damaged or could not be read, but not one that was removed meanwhile.
void list_defect(int directory, const std::string& name, const absl::Status& cause, CacheListing* listing) {
  if (absl::IsNotFound(cause) && is_gone(directory, name)) return;
  listing->defects.push_back({name, std::string(cause.message()), !absl::IsDataLoss(cause)});
}

void list_record(int directory, const std::string& name, CacheListing* listing) {
  std::string key_text;
  const absl::StatusOr<DiskEntry> entry = read_entry(directory, name, &key_text);
  if (!entry.ok()) return list_defect(directory, name, entry.status(), listing);
  absl::StatusOr<PlanRecord> record = record_of(key_from_text(key_text), entry->payload());
  if (absl::IsUnimplemented(record.status())) return;  // another version's record is no defect
  if (!record.ok())
    return list_defect(directory, name, absl::DataLossError(record.status().message()), listing);
  listing->records.push_back(
      {name, entry->bytes.size(), entry->age_seconds, std::move(key_text), *std::move(record)});
}

void list_entry(int directory, const std::string& name, const UseTable& uses, CacheListing* listing) {
  CacheEntryInfo info;
  const absl::StatusOr<DiskEntry> entry = read_entry(directory, name, &info.key_text);
  if (!entry.ok()) return list_defect(directory, name, entry.status(), listing);
  const absl::StatusOr<Artifact> artifact = parse_artifact(entry->payload());
  if (!artifact.ok())
    return list_defect(directory, name, absl::DataLossError(artifact.status().message()), listing);
  const Use use = uses.of(fingerprint_of(name));
  info.file = name;
  info.bytes = entry->bytes.size();
  info.format = artifact->format;
  info.metadata = artifact->metadata;
  info.hits = use.hits;
  info.made = use.made;
  info.order = use.order;
  info.age_seconds = entry->age_seconds;
  listing->entries.push_back(std::move(info));
}

}  // namespace

DiskStore::DiskStore(const std::string& directory, uint64_t cap_bytes, Logger logger)
    : directory_(directory_path(directory)), cap_bytes_(cap_bytes), logger_(std::move(logger)) {}

absl::Status DiskStore::check() const {
  if (directory_[0] != '/')
    return absl::PermissionDeniedError(absl::StrCat(directory_, ": the current directory is unknown"));
  const absl::Status status = open_private_directory(directory_).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::StatusOr<DiskEntry> DiskStore::read(const Key& key, EntryKind kind) const {
  LATHE_ASSIGN_OR_RETURN(const FileDescriptor directory, open_private_directory(directory_));
  const std::string name = name_of(kind, key.fingerprint);
  std::string key_text;
  absl::StatusOr<DiskEntry> entry = read_entry(directory.get(), name, &key_text);
  // Another machine may replace the entry during the read (ESTALE). Then read the new one.
  for (int i = 0; i < kReplacements && absl::IsNotFound(entry.status()) && !is_gone(directory.get(), name);
       ++i)
    entry = read_entry(directory.get(), name, &key_text);
  if (entry.ok() && key_text != key.text) return absl::DataLossError("it holds another key");
  return entry;
}

void DiskStore::note_hit(const Key& key, EntryKind kind) const {
  const absl::StatusOr<FileDescriptor> directory = open_private_directory(directory_);
  if (directory.ok()) note_use(directory->get(), key.fingerprint, use_of(kind, UseKind::kHit));
}

absl::StatusOr<uint64_t> DiskStore::write(const Key& key, absl::string_view payload, EntryKind kind) {
  absl::StatusOr<uint64_t> written = publish(key, payload, kind);
  if (!written.ok())
    logger_.log(warned_.exchange(true) ? LogLevel::kDebug : LogLevel::kWarning,
                absl::StrCat("cache: cannot write to ", directory_,
                             ", kernels are kept in memory only: ", written.status().message()));
  return written;
}

absl::StatusOr<uint64_t> DiskStore::publish(const Key& key, absl::string_view payload, EntryKind kind) {
  LATHE_ASSIGN_OR_RETURN(const FileDescriptor directory, make_private_directory(directory_));
  const std::string bytes = make_entry(key.text, payload);
  if (bytes.size() > std::min(static_cast<uint64_t>(kMaxEntryBytes), cap_bytes_))
    return absl::ResourceExhaustedError(
        absl::StrCat("an entry of ", bytes.size(), " bytes is larger than the limit of ",
                     std::min(static_cast<uint64_t>(kMaxEntryBytes), cap_bytes_)));
  LATHE_RETURN_IF_ERROR(make_room(directory.get(), bytes.size()));
  LATHE_RETURN_IF_ERROR(publish_file(directory.get(), key.fingerprint, name_of(kind, key.fingerprint), bytes,
                                     Durability::kWhole));
  note_use(directory.get(), key.fingerprint, use_of(kind, UseKind::kMade));
  return bytes.size();
}

absl::Status DiskStore::make_room(int directory, uint64_t bytes) {
  Room& room = room_.get();
  const std::lock_guard<std::mutex> lock(room.mutex);
  if (bytes > room.bytes) {
    const uint64_t goal = cap_bytes_ / kGoalDenominator * kGoalNumerator;
    LATHE_ASSIGN_OR_RETURN(const StoreSize size,
                           evict(directory, cap_bytes_ - bytes, goal - std::min(goal, bytes)));
    evicted_.fetch_add(size.evicted, std::memory_order_relaxed);
    room.bytes = std::max(bytes, (cap_bytes_ - std::min(cap_bytes_, size.bytes)) / kLooks);
  }
  room.bytes -= bytes;
  return absl::OkStatus();
}

KeyLock DiskStore::lock(const Key& key, Urgency urgency, double timeout_seconds) {
  const absl::StatusOr<FileDescriptor> directory = make_private_directory(directory_);
  if (!directory.ok()) return KeyLock();
  return KeyLock::acquire(directory->get(), lock_name(key.fingerprint, urgency), timeout_seconds);
}

absl::Status DiskStore::failed(const absl::Status& cause) const {
  return absl::UnavailableError(absl::StrCat("cache directory ", directory_, ": ", cause.message()));
}

absl::StatusOr<CacheListing> DiskStore::list() const {
  CacheListing listing;
  const absl::StatusOr<FileDescriptor> directory = open_private_directory(directory_);
  if (absl::IsNotFound(directory.status())) return listing;
  if (!directory.ok()) return failed(directory.status());
  const absl::StatusOr<std::vector<std::string>> names = names_in(directory->get());
  if (!names.ok()) return failed(names.status());
  const UseTable uses = read_uses(directory->get());
  listing.hits_of_removed = uses.gone.hits;
  listing.made_of_removed = uses.gone.made;
  for (const std::string& name : *names) {
    if (is_record_file(name)) list_record(directory->get(), name, &listing);
    if (is_entry(name)) list_entry(directory->get(), name, uses, &listing);
  }
  std::sort(listing.entries.begin(), listing.entries.end(),
            [](const CacheEntryInfo& x, const CacheEntryInfo& y) {
              return std::tie(x.order, x.file) < std::tie(y.order, y.file);
            });
  return listing;
}

absl::StatusOr<uint64_t> DiskStore::clear() {
  const absl::StatusOr<FileDescriptor> directory = open_private_directory(directory_);
  if (absl::IsNotFound(directory.status())) return 0;
  if (!directory.ok()) return failed(directory.status());
  const absl::StatusOr<std::vector<std::string>> names = names_in(directory->get());
  if (!names.ok()) return failed(names.status());
  uint64_t removed = 0;
  absl::Status kept;
  for (const std::string& name : *names) {
    if (is_held(name)) reclaim(directory->get(), name);
    if (!is_entry(name) && !is_record_file(name) && name != kUsesName) continue;
    if (unlinkat(directory->get(), name.c_str(), 0) == 0)
      removed += is_entry(name);
    else if (errno != ENOENT)
      kept.Update(errno_status(errno, name));
  }
  if (!kept.ok()) return failed(kept);
  return removed;
}

absl::StatusOr<uint64_t> DiskStore::prune(uint64_t bytes) {
  const absl::StatusOr<FileDescriptor> directory = open_private_directory(directory_);
  if (absl::IsNotFound(directory.status())) return 0;
  if (!directory.ok()) return failed(directory.status());
  const absl::StatusOr<StoreSize> size = evict(directory->get(), bytes, bytes);
  if (!size.ok()) return failed(size.status());
  evicted_.fetch_add(size->evicted, std::memory_order_relaxed);
  // A file that could not be removed does not matter if others freed enough space.
  if (size->bytes > bytes && !size->kept.ok()) return failed(size->kept);
  return size->evicted;
}

}  // namespace lathe
