// One file an entry in one private directory. Reads with read(2), publishes by rename; any defect is a miss.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "base/log.h"
#include "base/per_process.h"
#include "cache/cache.h"
#include "cache/entry_file.h"
#include "cache/key_lock.h"
#include "core/key.h"

namespace lathe {

// The bytes of a checked entry.
struct DiskEntry {
  std::string bytes;
  size_t payload_offset = 0;
  int64_t age_seconds = 0;  // since it was written, by the clock of whoever did
  absl::string_view payload() const { return absl::string_view(bytes).substr(payload_offset); }
};

// Thread-safe, and safe beside other processes on the same directory.
class DiskStore {
 public:
  // `directory` is not empty; it need not exist. `cap_bytes`: what its entries may take.
  DiskStore(const std::string& directory, uint64_t cap_bytes, Logger logger);

  const std::string& directory() const { return directory_; }
  uint64_t cap_bytes() const { return cap_bytes_; }
  // Whether the directory, if it exists, may be trusted.
  absl::Status check() const;

  // kNotFound: no such entry. kDataLoss: there is a file, and why it is refused. kUnavailable: there is one
  // that could not be read. Else: it could not be looked at.
  absl::StatusOr<DiskEntry> read(const Key& key, EntryKind kind = EntryKind::kArtifact) const;
  // The entry that was read turned out to be good: it goes last when room is made. Best effort.
  void note_hit(const Key& key, EntryKind kind = EntryKind::kArtifact) const;
  // Publishes, replacing what is there, after the least recently used entries have made room; returns the
  // file's bytes. The first failure is reported as a warning.
  absl::StatusOr<uint64_t> write(const Key& key, absl::string_view payload,
                                 EntryKind kind = EntryKind::kArtifact);
  // Makes the directory if need be. May return a lock that holds nothing.
  KeyLock lock(const Key& key, Urgency urgency, double timeout_seconds);

  // Every entry, least recently used first, and every record. Files that are not ours by name are passed
  // over. Of this and the next two: a directory that does not exist is empty; kUnavailable names it and says
  // why it could not be looked at, or what could not be removed.
  absl::StatusOr<CacheListing> list() const;
  // Removes entries, records, what ended processes left, and the journal, nothing else; returns how many
  // entries.
  absl::StatusOr<uint64_t> clear();
  // Reclaims what ended processes left and removes least recently used entries down to `bytes`; how many
  // entries.
  absl::StatusOr<uint64_t> prune(uint64_t bytes);
  // Entries that this object removed to make room.
  uint64_t evicted() const { return evicted_.load(std::memory_order_relaxed); }

 private:
  absl::StatusOr<uint64_t> publish(const Key& key, absl::string_view payload, EntryKind kind);
  absl::Status make_room(int directory, uint64_t bytes);
  absl::Status failed(const absl::Status& cause) const;

  const std::string directory_;
  const uint64_t cap_bytes_;
  const Logger logger_;
  std::atomic<bool> warned_{false};
  std::atomic<uint64_t> evicted_{0};
  // How much may be written before the directory is looked at again.
  struct Room {
    std::mutex mutex;
    uint64_t bytes = 0;  // under mutex
  };
  PerProcess<Room> room_;  // a fork waits for nobody who looks
};

}  // namespace lathe
