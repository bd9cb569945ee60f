// The kernel cache: memory over a writable disk store, over read-only bundles, over a shared remote store.
// Invariant: the result is a correct artifact or a clean miss.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/log.h"
#include "core/artifact.h"
#include "core/key.h"
#include "core/plan_record.h"

namespace lathe {

constexpr uint64_t kNoCap = ~uint64_t{0};
constexpr double kLeaseSeconds = 10;

struct CacheOptions {
  std::string directory;        // "": memory only
  uint64_t cap_bytes = kNoCap;  // for the entries in the directory; the least recently used are removed first
  std::vector<std::string> bundles;  // read-only, searched in this order, after the directory
  // Longest time to wait for another process or machine that compiles the same key. After it, the waiter
  // compiles the key itself.
  double lock_timeout_seconds = 120;
  std::string remote;  // URL of the store that machines share (remote_store.h); "": none
  // A lease in the remote store ends this long after its holder dies. The compiling process renews it.
  double lease_seconds = kLeaseSeconds;
  Logger logger;
};

struct CacheStatistics {
  uint64_t memory_hits = 0, disk_hits = 0, bundle_hits = 0, misses = 0, disk_rejects = 0, evictions = 0;
  uint64_t remote_hits = 0, remote_rejects = 0;
  uint64_t memory_bytes = 0, disk_bytes_read = 0, disk_bytes_written = 0;
  double disk_load_seconds = 0;
};

struct CacheEntryInfo {
  std::string file;
  uint64_t bytes = 0;
  std::string key_text;
  CodeFormat format = CodeFormat::kElfObject;
  std::string metadata;  // the artifact's
  // How often processes read it and wrote it. Approximate, since a crash loses some uses.
  uint64_t hits = 0, made = 0;
  uint64_t order = 0;       // ascending; the least recently used entry has the lowest
  int64_t age_seconds = 0;  // since it was written, by the clock of the machine that wrote it
};

struct CacheRecordInfo {
  std::string file;
  uint64_t bytes = 0;
  int64_t age_seconds = 0;
  std::string key_text;
  PlanRecord record;
};

struct CacheDefect {
  std::string file, cause;
  bool unread = false;  // the file system failed, so the file's contents are unknown
};

struct CacheListing {
  std::vector<CacheEntryInfo> entries;   // least recently used first
  std::vector<CacheRecordInfo> records;  // by file
  std::vector<CacheDefect> defects;      // files that are damaged or cannot be read; each is a miss
  uint64_t hits_of_removed = 0, made_of_removed = 0;
};

// kStopped: get_or_create has no artifact, because its before_wait returned OnMiss::kStop.
enum class CacheOutcome { kMemoryHit, kDiskHit, kBundleHit, kRemoteHit, kCompiled, kStopped };
// "memory hit", "disk hit", "bundle hit", "remote hit", "compiled" or "stopped".
absl::string_view name_of(CacheOutcome o);

struct CacheResult {
  std::shared_ptr<const Artifact> artifact;  // null only with kStopped
  CacheOutcome outcome;
};

// kNow: a caller waits for the kernel. kIdle: nobody waits, so the compile runs at idle priority. On a busy
// machine that may take very long, so a kNow caller of the same key compiles it itself instead of waiting.
enum class Urgency { kNow, kIdle };

// What get_or_create does about a key that no store has.
enum class OnMiss { kCompile, kStop };

class ArtifactCache {
 public:
  virtual ~ArtifactCache() = default;
  // Searches memory, the disk, the bundles, then the remote store. kNotFound if none has the key.
  // Thread-safe.
  virtual absl::StatusOr<CacheResult> get(const Key& key) = 0;
  // As get, but compiles on a miss. `compile` runs once per key: in this process by single flight (other
  // callers wait and share the result or the error), on this machine by a lock file, and among all users of
  // the remote store by a lease, both with timeouts. Publishes to disk and to the remote store, best effort.
  // Errors of `compile` are returned and not cached.
  //
  // Each urgency has its own flight, lock and lease: a kIdle call waits for kNow calls, a kNow call does not
  // wait for kIdle ones.
  //
  // `before_wait`, if given, is called when no store has the key, before this call compiles or waits for
  // another's compile. If it returns kStop, this call ends with CacheOutcome::kStopped; other callers go on.
  using BeforeWait = std::function<OnMiss()>;
  virtual absl::StatusOr<CacheResult> get_or_create(const Key& key,
                                                    absl::FunctionRef<absl::StatusOr<Artifact>()> compile,
                                                    const BeforeWait& before_wait = nullptr,
                                                    Urgency urgency = Urgency::kNow) = 0;
  // Replaces the key's artifact in memory and (best effort) on disk, for an artifact that turned out to be
  // unusable. Holders of the old one keep it.
  virtual std::shared_ptr<const Artifact> replace(const Key& key, Artifact artifact) = 0;
  // Writes an artifact to disk only. False: the disk already has a valid entry for the key. kUnavailable:
  // there is no directory, or it cannot be written.
  virtual absl::StatusOr<bool> store(const Key& key, const Artifact& artifact) = 0;
  // Returns the record with this key (key_of) and kind: from the directory, else from the first bundle that
  // has it, else from the remote store, which also writes it to disk. For tuning, a different record in the
  // remote store wins, because it was measured last. kNotFound if there is none. Costs at least one file
  // operation, so call it only on a miss.
  virtual absl::StatusOr<PlanRecord> read_record(RecordKind kind, const Key& key) = 0;
  // Writes a record that was made here to the remote store (best effort) and to disk, replacing the key's old
  // one. kUnavailable: there is no store, or the directory cannot be written.
  virtual absl::Status write_record(const PlanRecord& record) = 0;
  // Writes a record that was made elsewhere, to disk only. False: the disk already has one for its key.
  virtual absl::StatusOr<bool> store_record(const PlanRecord& record) = 0;
  // Whether there is a store that write_record can write to.
  virtual bool keeps_records() const = 0;
  virtual CacheStatistics statistics() const = 0;
  // The directory of the disk store; "" if there is none.
  virtual std::string directory() const = 0;
  virtual uint64_t cap_bytes() const = 0;
  // The next three return kUnavailable, with the cause, if the directory was refused, cannot be read, or
  // holds a file that cannot be removed. Without a directory, or if it does not exist, they report an empty
  // store.
  virtual absl::StatusOr<CacheListing> list() = 0;
  // clear removes all entries, prune the least recently used ones until at most `bytes` are left. Both return
  // how many entries of the disk store they removed.
  virtual absl::StatusOr<uint64_t> clear() = 0;
  virtual absl::StatusOr<uint64_t> prune(uint64_t bytes) = 0;
};

// Never fails. If a directory cannot be used safely (unwritable, owned by another user, a symbolic link,
// writable by a group or by everybody), the logger gets one warning and the cache works in memory only.
std::unique_ptr<ArtifactCache> make_cache(const CacheOptions& options);

}  // namespace lathe
