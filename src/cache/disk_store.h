// One file an entry in one private directory. Reads with read(2), publishes by rename; any defect is a miss.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/log.h"
#include "cache/cache.h"
#include "cache/key_lock.h"
#include "core/key.h"

namespace lathe {

// The bytes of a checked entry; payload() is the serialized artifact.
struct DiskEntry {
  std::string bytes;
  size_t payload_offset = 0;
  absl::string_view payload() const { return absl::string_view(bytes).substr(payload_offset); }
};

// Thread-safe, and safe beside other processes on the same directory.
class DiskStore {
 public:
  // `directory` is not empty; it need not exist.
  DiskStore(const std::string& directory, Logger logger);

  const std::string& directory() const { return directory_; }
  // Whether the directory, if it exists, may be trusted.
  absl::Status check() const;

  // kNotFound: no such entry. kDataLoss: there is a file, and why it is refused. Else: it could not be looked
  // at.
  absl::StatusOr<DiskEntry> read(const Key& key) const;
  // Publishes, replacing what is there; returns the file's bytes. The first failure is reported as a warning.
  absl::StatusOr<uint64_t> write(const Key& key, absl::string_view payload);
  // Makes the directory if need be. May return a lock that holds nothing.
  KeyLock lock(const Key& key, double timeout_seconds);

  // Good entries by file name; `rejected` counts the defective ones. Files that are not ours by name are
  // passed over.
  std::vector<CacheEntryInfo> list(uint64_t* rejected) const;
  // Removes entries, temporaries and lock files, nothing else; returns how many entries.
  uint64_t clear();

 private:
  absl::StatusOr<uint64_t> publish(const Key& key, absl::string_view payload);
  void remove_stale_temporaries(int directory);

  const std::string directory_;
  const Logger logger_;
  std::atomic<bool> swept_{false};
  std::atomic<bool> warned_{false};
};

}  // namespace lathe
