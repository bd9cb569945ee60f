// The kernel cache: memory over a writable disk store over read-only bundles over a shared remote store.
// Invariant: a correct artifact or a clean miss.
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
  std::string directory;             // "": memory only
  uint64_t cap_bytes = kNoCap;       // of the entries in the directory; the least recently used make room
  std::vector<std::string> bundles;  // read-only, looked up in this order after the directory
  // What one compile may take: a waiter for another process' or machine's that lives goes on by itself after
  // it.
  double lock_timeout_seconds = 120;
  std::string remote;  // a URL (remote_store.h) of what machines share; "": none
  // A lease there ends that long after its holder has; who compiles renews it.
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
  std::string metadata;         // the artifact's
  uint64_t hits = 0, made = 0;  // times a process read it, and times one wrote it; about: a crash loses some
  uint64_t order = 0;           // ascending: the least recently used goes first
  int64_t age_seconds = 0;      // since it was written, by the clock of whoever did
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
  bool unread = false;  // nothing is known of its bytes: the file system failed
};

struct CacheListing {
  std::vector<CacheEntryInfo> entries;   // least recently used first
  std::vector<CacheRecordInfo> records;  // by file
  std::vector<CacheDefect> defects;      // files that are refused or cannot be read, each a miss
  uint64_t hits_of_removed = 0, made_of_removed = 0;
};

enum class CacheOutcome { kMemoryHit, kDiskHit, kBundleHit, kRemoteHit, kCompiled };
absl::string_view name_of(CacheOutcome o);  // "memory hit", "disk hit", "bundle hit", "remote hit",
                                            // "compiled"

struct CacheResult {
  std::shared_ptr<const Artifact> artifact;
  CacheOutcome outcome;
};

// kNow: somebody waits. kIdle: nobody does, and the compile runs where nothing else wants the core, which on
// a busy machine is seldom: whoever wants the key now makes it beside, and does not wait for that.
enum class Urgency { kNow, kIdle };

class ArtifactCache {
 public:
  virtual ~ArtifactCache() = default;
  // Looks in memory, on disk, in the bundles, then in the remote store; kNotFound when in none. Thread-safe.
  virtual absl::StatusOr<CacheResult> get(const Key& key) = 0;
  // As get, but on a miss runs `compile` once per key in this process (single flight: other callers wait for
  // it and share its result or its error) and, through a lock file with a timeout, once per key on this
  // machine and, through a lease with a timeout, once per key on all that share the remote store; publishes
  // to disk and to the remote store, best effort. Errors of `compile` are returned and not cached. Of
  // urgencies this holds one by one: a kIdle call waits for kNow ones, a kNow call not for kIdle ones.
  // `before_wait`, where it is given, is asked when no store has the key, before another's compile is waited
  // for (in this process, for a lock or for a lease) or one begun: its error is returned, to this caller
  // alone.
  using BeforeWait = std::function<absl::Status()>;
  virtual absl::StatusOr<CacheResult> get_or_create(const Key& key,
                                                    absl::FunctionRef<absl::StatusOr<Artifact>()> compile,
                                                    const BeforeWait& before_wait = nullptr,
                                                    Urgency urgency = Urgency::kNow) = 0;
  // Puts an artifact in the place of the key's, in memory and (best effort) on disk: for one that turned out
  // to be of no use. Whoever holds the old one keeps it.
  virtual std::shared_ptr<const Artifact> replace(const Key& key, Artifact artifact) = 0;
  // Puts an artifact on disk and nowhere else; false: an entry of the key is there. kUnavailable: there is no
  // directory, or it cannot be written.
  virtual absl::StatusOr<bool> store(const Key& key, const Artifact& artifact) = 0;
  // The record of that key (key_of) and kind, from the directory, else from the first bundle that has it,
  // else from the remote store; of tuning the remote store's first where it has another, for that is the last
  // one that was measured. What comes from there is put on disk. kNotFound. A file operation at each call,
  // for the path of a miss alone.
  virtual absl::StatusOr<PlanRecord> read_record(RecordKind kind, const Key& key) = 0;
  // Puts one that was made here into the remote store (best effort) and on disk, in the place of its key's.
  // kUnavailable: there is neither, or the directory cannot be written.
  virtual absl::Status write_record(const PlanRecord& record) = 0;
  // Puts one that was made elsewhere on disk and nowhere else; false: one of its key is there.
  virtual absl::StatusOr<bool> store_record(const PlanRecord& record) = 0;
  // Whether write_record has a place for it.
  virtual bool keeps_records() const = 0;
  virtual CacheStatistics statistics() const = 0;
  // "" when there is no disk store; otherwise its directory.
  virtual std::string directory() const = 0;
  virtual uint64_t cap_bytes() const = 0;
  // Of these three: kUnavailable says why the directory was refused, could not be looked at or kept
  // something; without a directory, or where it does not exist, there is nothing.
  virtual absl::StatusOr<CacheListing> list() = 0;
  // Both return how many entries of the disk store they removed; prune: the least recently used, down to
  // `bytes`.
  virtual absl::StatusOr<uint64_t> clear() = 0;
  virtual absl::StatusOr<uint64_t> prune(uint64_t bytes) = 0;
};

// Never fails: a directory that cannot be used safely (unwritable, owned by another user, a symbolic link,
// group- or world-writable) is reported once through the logger and the cache is memory only (readable stores
// stay readable).
std::unique_ptr<ArtifactCache> make_cache(const CacheOptions& options);

}  // namespace lathe
