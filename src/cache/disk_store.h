// A store with one file per entry in a private directory. It reads with read(2) and publishes by renaming.
// Any defect of a file is a miss.
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
  int64_t age_seconds = 0;  // since it was written, by the clock of the machine that wrote it
  absl::string_view payload() const { return absl::string_view(bytes).substr(payload_offset); }
};

// Thread-safe. Several processes may use the same directory at once.
class DiskStore {
 public:
  // `directory` must not be empty and need not exist. `cap_bytes` limits the bytes of its entries.
  DiskStore(const std::string& directory, uint64_t cap_bytes, Logger logger);

  const std::string& directory() const { return directory_; }
  uint64_t cap_bytes() const { return cap_bytes_; }
  // OK if the directory is safe to use or does not exist yet.
  absl::Status check() const;

  // kNotFound: there is no such entry. kDataLoss: the file is damaged, and the message says how.
  // kUnavailable: the file could not be read. Any other error: the directory could not be opened.
  absl::StatusOr<DiskEntry> read(const Key& key, EntryKind kind = EntryKind::kArtifact) const;
  // Records that a read entry was valid, so that it counts as recently used. Best effort.
  void note_hit(const Key& key, EntryKind kind = EntryKind::kArtifact) const;
  // Publishes an entry and replaces an old one, after evicting enough of the least recently used entries.
  // Returns the file's bytes. The first failure is logged as a warning.
  absl::StatusOr<uint64_t> write(const Key& key, absl::string_view payload,
                                 EntryKind kind = EntryKind::kArtifact);
  // Creates the directory if it does not exist. May return a lock that holds nothing.
  KeyLock lock(const Key& key, Urgency urgency, double timeout_seconds);

  // Lists every entry, least recently used first, and every record. Other files are ignored.
  //
  // Errors of list, clear and prune: kUnavailable names the directory and says what could not be read or
  // removed. A directory that does not exist is empty.
  absl::StatusOr<CacheListing> list() const;
  // Removes entries, records, the journal and what ended processes left, and no other files. Returns how many
  // entries it removed.
  absl::StatusOr<uint64_t> clear();
  // Removes what ended processes left, then the least recently used entries until at most `bytes` are left.
  // Returns how many entries it removed.
  absl::StatusOr<uint64_t> prune(uint64_t bytes);
  // How many entries this object evicted.
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
  // How many bytes may be written before make_room reads the directory again.
  struct Room {
    std::mutex mutex;
    uint64_t bytes = 0;  // under mutex
  };
  PerProcess<Room> room_;  // per process: a fork must not wait for another thread's make_room
};

}  // namespace lathe
