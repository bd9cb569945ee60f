// The kernel cache: memory over a writable disk store. Invariant: a correct artifact or a clean miss.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/log.h"
#include "core/artifact.h"
#include "core/key.h"

namespace lathe {

struct CacheOptions {
  std::string directory;             // "": memory only
  double lock_timeout_seconds = 10;  // after which a waiter compiles for itself
  Logger logger;
};

struct CacheStatistics {
  uint64_t memory_hits = 0, disk_hits = 0, misses = 0, disk_rejects = 0;
  uint64_t memory_bytes = 0, disk_bytes_read = 0, disk_bytes_written = 0;
  double disk_load_seconds = 0;
};

struct CacheEntryInfo {
  std::string file;
  uint64_t bytes = 0;
  std::string key_text;
};

enum class CacheOutcome { kMemoryHit, kDiskHit, kCompiled };
absl::string_view name_of(CacheOutcome o);  // "memory hit", "disk hit", "compiled"

struct CacheResult {
  std::shared_ptr<const Artifact> artifact;
  CacheOutcome outcome;
};

class ArtifactCache {
 public:
  virtual ~ArtifactCache() = default;
  // Looks in memory, then on disk; kNotFound when in neither. Thread-safe.
  virtual absl::StatusOr<CacheResult> get(const Key& key) = 0;
  // As get, but on a miss runs `compile` once per key in this process (single flight: other callers wait for
  // it and share its result or its error) and, through a lock file with a timeout, once per key on this
  // machine; publishes to disk, best effort. Errors of `compile` are returned and not cached.
  virtual absl::StatusOr<CacheResult> get_or_create(
      const Key& key, absl::FunctionRef<absl::StatusOr<Artifact>()> compile) = 0;
  // Puts an artifact in the place of the key's, in memory and (best effort) on disk: for one that turned out
  // to be of no use. Whoever holds the old one keeps it.
  virtual std::shared_ptr<const Artifact> replace(const Key& key, Artifact artifact) = 0;
  virtual CacheStatistics statistics() const = 0;
  // "" when there is no disk store; otherwise its directory.
  virtual std::string directory() const = 0;
  virtual std::vector<CacheEntryInfo> list(uint64_t* rejected) = 0;
  virtual uint64_t clear() = 0;
};

// Never fails: a directory that cannot be used safely (unwritable, owned by another user, a symbolic link,
// group- or world-writable) is reported once through the logger and the cache is memory only (readable stores
// stay readable).
std::unique_ptr<ArtifactCache> make_cache(const CacheOptions& options);

}  // namespace lathe
