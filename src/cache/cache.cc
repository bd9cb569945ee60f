// The memory table and the single flight, over the disk store, the bundles and the remote store.
#include "cache/cache.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "base/fork_safe_mutex.h"
#include "base/per_process.h"
#include "base/status.h"
#include "cache/bundle_set.h"
#include "cache/disk_store.h"
#include "cache/flight.h"
#include "cache/remote_records.h"
#include "cache/remote_store.h"

namespace lathe {
namespace {

// Runs `make` and returns what it throws as an error. An exception that escaped would leave the other callers
// of the key waiting for ever.
template <typename F>
absl::StatusOr<ArtifactPtr> without_exceptions(F&& make) noexcept {
  try {
    try {
      return make();
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError("out of memory while making a kernel");
    } catch (const std::exception& e) {
      return absl::InternalError(absl::StrCat("exception while making a kernel: ", e.what()));
    }
  } catch (const std::bad_alloc&) {
    // There was no memory even for the message; a bare code needs none.
    return absl::Status(absl::StatusCode::kResourceExhausted, "");
  } catch (...) {
    return absl::Status(absl::StatusCode::kInternal, "");
  }
}

// For an error of DiskStore::read: the file exists but cannot be used.
bool is_refused(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsUnavailable(status);
}

constexpr std::chrono::seconds kFruitless(60);

class MemoryOverDisk final : public ArtifactCache {
 public:
  // `refused`: why the directory that was asked for cannot be used; OK if none was asked for or it is in use.
  MemoryOverDisk(std::unique_ptr<DiskStore> disk, absl::Status refused, const CacheOptions& options)
      : disk_(std::move(disk)),
        refused_(std::move(refused)),
        bundles_(options.bundles, options.logger),
        remote_(remote_for(options)),
        remote_records_(remote_ == nullptr ? nullptr
                                           : std::make_unique<RemoteRecords>(remote_.get(), options.logger)),
        lock_timeout_seconds_(options.lock_timeout_seconds),
        lease_seconds_(options.lease_seconds),
        logger_(options.logger) {}

  absl::StatusOr<CacheResult> get(const Key& key) override {
    if (ArtifactPtr found = find(key)) return CacheResult{std::move(found), CacheOutcome::kMemoryHit};
    absl::StatusOr<ArtifactPtr> loaded = load(key, /*first_look=*/true);
    if (loaded.ok()) return CacheResult{keep(key, *loaded), CacheOutcome::kDiskHit};
    loaded = load_from_bundles(key);
    if (loaded.ok()) return CacheResult{keep(key, *loaded), CacheOutcome::kBundleHit};
    loaded = load_from_remote(key);
    if (loaded.ok()) {
      ArtifactPtr kept = keep(key, *loaded);
      publish(key, *kept, CacheOutcome::kRemoteHit);
      return CacheResult{std::move(kept), CacheOutcome::kRemoteHit};
    }
    count([](CacheStatistics* s) { ++s->misses; });
    return absl::NotFoundError(absl::StrCat("no artifact for key ", key.fingerprint));
  }

  absl::StatusOr<CacheResult> get_or_create(const Key& key,
                                            absl::FunctionRef<absl::StatusOr<Artifact>()> compile,
                                            const BeforeWait& before_wait, Urgency urgency) override {
    for (;;) {
      std::optional<absl::StatusOr<CacheResult>> result = join_or_lead(key, compile, before_wait, urgency);
      if (result) return *std::move(result);
    }
  }

  ArtifactPtr replace(const Key& key, Artifact artifact) override {
    auto fresh = std::make_shared<const Artifact>(std::move(artifact));
    {
      const ForkSafeLock lock(mutex_);
      ArtifactPtr& held = table_[key.text];
      if (held != nullptr) statistics_.memory_bytes -= size_of(key, *held);
      statistics_.memory_bytes += size_of(key, *fresh);
      held = fresh;
    }
    publish(key, *fresh, CacheOutcome::kCompiled);
    return fresh;
  }

  absl::StatusOr<bool> store(const Key& key, const Artifact& artifact) override {
    if (disk_ == nullptr) return no_disk();
    const absl::StatusOr<DiskEntry> there = disk_->read(key);
    if (there.ok() && parse_artifact(there->payload()).ok()) return false;
    const absl::StatusOr<uint64_t> written = disk_->write(key, serialize(artifact));
    if (!written.ok())
      return absl::UnavailableError(absl::StrCat(disk_->directory(), ": ", written.status().message()));
    count([&](CacheStatistics* s) { s->disk_bytes_written += *written; });
    return true;
  }

  absl::StatusOr<PlanRecord> read_record(RecordKind kind, const Key& key) override {
    absl::StatusOr<PlanRecord> here = read_record_here(key);
    if (remote_ == nullptr ||
        !remote_records_->may_have_another(kind, key, here.ok() ? serialize(*here) : ""))
      return here;
    absl::StatusOr<PlanRecord> there = remote_records_->get(key);
    if (there.ok()) {
      if (disk_ != nullptr) (void)put_on_disk(*there);  // it logs its own failures
      return there;
    }
    if (absl::IsDataLoss(there.status())) {
      count([](CacheStatistics* s) { ++s->remote_rejects; });
      logger_.log(LogLevel::kWarning, absl::StrCat("cache: the remote store's record ", key.fingerprint,
                                                   " is refused: ", there.status().message()));
    }
    return here;
  }

  absl::Status write_record(const PlanRecord& record) override {
    if (!keeps_records()) return no_disk();
    if (remote_ != nullptr) remote_records_->put(record);
    return disk_ == nullptr ? absl::OkStatus() : put_on_disk(record);
  }

  absl::StatusOr<bool> store_record(const PlanRecord& record) override {
    if (disk_ == nullptr) return no_disk();
    const Key key = key_of(record);
    const absl::StatusOr<DiskEntry> there = disk_->read(key, EntryKind::kRecord);
    if (there.ok() && record_of(key, there->payload()).ok()) return false;
    LATHE_RETURN_IF_ERROR(put_on_disk(record));
    return true;
  }

  bool keeps_records() const override { return disk_ != nullptr || remote_ != nullptr; }

  CacheStatistics statistics() const override {
    const ForkSafeLock lock(mutex_);
    CacheStatistics statistics = statistics_;
    if (disk_ != nullptr) statistics.evictions = disk_->evicted();
    return statistics;
  }
  std::string directory() const override { return disk_ == nullptr ? "" : disk_->directory(); }
  uint64_t cap_bytes() const override { return disk_ == nullptr ? kNoCap : disk_->cap_bytes(); }
  absl::StatusOr<CacheListing> list() override {
    LATHE_RETURN_IF_ERROR(refused_);
    return disk_ == nullptr ? CacheListing() : disk_->list();
  }
  absl::StatusOr<uint64_t> clear() override {
    LATHE_RETURN_IF_ERROR(refused_);
    return disk_ == nullptr ? 0 : disk_->clear();
  }
  absl::StatusOr<uint64_t> prune(uint64_t bytes) override {
    LATHE_RETURN_IF_ERROR(refused_);
    return disk_ == nullptr ? 0 : disk_->prune(bytes);
  }

 private:
  absl::Status no_disk() const {
    return refused_.ok() ? absl::UnavailableError("there is no cache directory") : refused_;
  }

  template <typename F>
  void count(F&& change) {
    const ForkSafeLock lock(mutex_);
    change(&statistics_);
  }

  ArtifactPtr find(const Key& key) {
    const ForkSafeLock lock(mutex_);
    const auto found = table_.find(key.text);
    if (found == table_.end()) return nullptr;
    ++statistics_.memory_hits;
    return found->second;
  }

  // Adds the artifact to the table, unless the key has one already. Returns the table's artifact.
  ArtifactPtr keep(const Key& key, const ArtifactPtr& artifact) {
    const ForkSafeLock lock(mutex_);
    const auto [at, inserted] = table_.try_emplace(key.text, artifact);
    if (inserted) statistics_.memory_bytes += size_of(key, *artifact);
    return at->second;
  }

  static uint64_t size_of(const Key& key, const Artifact& artifact) {
    return key.text.size() + artifact.code.size() + artifact.metadata.size();
  }

  // Reads from the directory, else from a bundle.
  absl::StatusOr<PlanRecord> read_record_here(const Key& key) {
    const absl::StatusOr<DiskEntry> entry = disk_ == nullptr
                                                ? absl::StatusOr<DiskEntry>(absl::NotFoundError("no disk"))
                                                : disk_->read(key, EntryKind::kRecord);
    absl::StatusOr<PlanRecord> record = entry.ok() ? record_of(key, entry->payload()) : entry.status();
    if (record.ok()) {
      disk_->note_hit(key, EntryKind::kRecord);
      return record;
    }
    if (entry.ok() || is_refused(entry.status())) {
      count([](CacheStatistics* s) { ++s->disk_rejects; });
      logger_.log(LogLevel::kWarning,
                  absl::StrCat("cache: ", disk_->directory(), ": record ", key.fingerprint,
                               " is refused: ", record.status().message()));
    }
    if (bundles_.empty()) return absl::NotFoundError("no record");
    uint64_t defects = 0;
    record = bundles_.read_record(key, &defects);
    if (defects > 0) count([&](CacheStatistics* s) { s->disk_rejects += defects; });
    return record;
  }

  absl::Status put_on_disk(const PlanRecord& record) {
    const absl::StatusOr<uint64_t> written =
        disk_->write(key_of(record), serialize(record), EntryKind::kRecord);
    if (!written.ok())
      return absl::UnavailableError(absl::StrCat(disk_->directory(), ": ", written.status().message()));
    count([&](CacheStatistics* s) { s->disk_bytes_written += *written; });
    return absl::OkStatus();
  }

  // Reads from disk. On the second look at the same key, a defect has already been counted and logged.
  absl::StatusOr<ArtifactPtr> load(const Key& key, bool first_look) {
    if (disk_ == nullptr) return absl::NotFoundError("no disk");
    const auto start = std::chrono::steady_clock::now();
    absl::StatusOr<DiskEntry> entry = disk_->read(key);
    absl::StatusOr<Artifact> artifact = entry.ok() ? parse_artifact(entry->payload()) : entry.status();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (artifact.ok()) {
      disk_->note_hit(key);
      count([&](CacheStatistics* s) {
        ++s->disk_hits;
        s->disk_bytes_read += entry->bytes.size();
        s->disk_load_seconds += elapsed.count();
      });
      return std::make_shared<const Artifact>(*std::move(artifact));
    }
    if (first_look && (entry.ok() || is_refused(entry.status()))) {
      count([&](CacheStatistics* s) {
        ++s->disk_rejects;
        s->disk_load_seconds += elapsed.count();
      });
      logger_.log(LogLevel::kWarning, absl::StrCat("cache: ", disk_->directory(), ": entry ", key.fingerprint,
                                                   " is refused: ", artifact.status().message()));
    }
    return artifact.status();
  }

  absl::StatusOr<ArtifactPtr> load_from_bundles(const Key& key) {
    if (bundles_.empty()) return absl::NotFoundError("no bundle");
    const auto start = std::chrono::steady_clock::now();
    uint64_t defects = 0;
    absl::StatusOr<Artifact> artifact = bundles_.read(key, &defects);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    count([&](CacheStatistics* s) {
      s->bundle_hits += artifact.ok();
      s->disk_rejects += defects;
      s->disk_load_seconds += elapsed.count();
    });
    if (!artifact.ok()) return artifact.status();
    return std::make_shared<const Artifact>(*std::move(artifact));
  }

  // Returns kNotFound also if the server failed; the remote store logs that itself.
  absl::StatusOr<ArtifactPtr> load_from_remote(const Key& key) {
    if (remote_ == nullptr) return absl::NotFoundError("no remote store");
    const absl::StatusOr<std::string> payload = remote_->get(key);
    if (absl::IsNotFound(payload.status()) || absl::IsUnavailable(payload.status()))
      return absl::NotFoundError(payload.status().message());
    absl::StatusOr<Artifact> artifact = payload.ok() ? parse_artifact(*payload) : payload.status();
    count([&](CacheStatistics* s) { ++(artifact.ok() ? s->remote_hits : s->remote_rejects); });
    if (artifact.ok()) return std::make_shared<const Artifact>(*std::move(artifact));
    logger_.log(LogLevel::kWarning, absl::StrCat("cache: the remote store's entry ", key.fingerprint,
                                                 " is refused: ", artifact.status().message()));
    return absl::DataLossError(artifact.status().message());
  }

  // As load_from_remote, but if there is no entry, takes the lease, or waits while another process holds it
  // (at most lock_timeout_seconds_). An error means that this process must compile. After a wait without a
  // result, does not wait again during kFruitless: the holder hangs, or the server grants no leases.
  absl::StatusOr<ArtifactPtr> load_from_remote_or_lease(const Key& key, Urgency urgency,
                                                        std::optional<RemoteLease>* lease) {
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + std::chrono::duration<double>(lock_timeout_seconds_);
    const std::chrono::duration<double> lease_time(lease_seconds_);
    Clock::time_point seen = Clock::now();  // when another process was last seen to hold a lease
    auto pause = std::chrono::milliseconds(5);
    for (;;) {
      absl::StatusOr<ArtifactPtr> loaded = load_from_remote(key);
      if (!absl::IsNotFound(loaded.status())) return loaded;
      const bool gives_way = urgency == Urgency::kIdle && remote_->is_leased(key, Urgency::kNow);
      const absl::Status taken = gives_way ? absl::AlreadyExistsError("another process compiles it now")
                                           : remote_->take_lease(key, urgency);
      if (taken.ok()) {
        lease->emplace(remote_.get(), key, urgency);
        // The previous holder may have published since the load above.
        return load_from_remote(key);
      }
      if (!absl::IsAlreadyExists(taken)) return taken;
      const Clock::time_point now = Clock::now();
      if (now >= seen + lease_time / 2 && (gives_way || remote_->is_leased(key, urgency))) seen = now;
      if (now >= deadline || now >= seen + lease_time)
        fruitless_until_.store((now + kFruitless).time_since_epoch().count());
      if (now.time_since_epoch().count() < fruitless_until_.load()) return taken;
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::milliseconds(100));
    }
  }

  // Per process: in the child of a fork the leading threads do not exist, so waiters would wait for ever.
  struct Flights {
    std::mutex mutex;
    std::unordered_map<std::string, std::shared_ptr<Flight>> by_key;  // under mutex
  };

  // Announces that this process compiles a key: `machine` to this machine, `fleet` to all users of the remote
  // store.
  struct Claims {
    std::optional<KeyLock> machine;
    std::optional<RemoteLease> fleet;
  };

  static std::unique_ptr<RemoteStore> remote_for(const CacheOptions& options) {
    if (options.remote.empty()) return nullptr;
    absl::StatusOr<RemoteAddress> address = parse_remote(options.remote);
    if (address.ok())
      return std::make_unique<RemoteStore>(*std::move(address), options.logger, options.lease_seconds);
    options.logger.log(LogLevel::kWarning, absl::StrCat("cache: remote store: ", address.status().message()));
    return nullptr;
  }

  // One attempt of get_or_create. Returns nullopt if the caller must try again.
  std::optional<absl::StatusOr<CacheResult>> join_or_lead(
      const Key& key, absl::FunctionRef<absl::StatusOr<Artifact>()> compile, const BeforeWait& before_wait,
      Urgency urgency) {
    std::shared_ptr<Flight> flight;
    bool leads = false;
    {
      Flights& flights = flights_.get();
      const std::lock_guard<std::mutex> lock(flights.mutex);
      if (ArtifactPtr found = find(key)) return CacheResult{std::move(found), CacheOutcome::kMemoryHit};
      std::shared_ptr<Flight>& slot = flights.by_key[key.text];
      if (slot == nullptr || (slot->urgency() == Urgency::kIdle && urgency == Urgency::kNow)) {
        slot = std::make_shared<Flight>(urgency);
        leads = true;
      }
      flight = slot;
    }
    if (leads) return lead(key, flight.get(), compile, before_wait);
    if (before_wait != nullptr && flight->waits_until_slow() && before_wait() == OnMiss::kStop)
      return CacheResult{nullptr, CacheOutcome::kStopped};
    absl::StatusOr<ArtifactPtr> artifact = flight->wait();
    if (flight->is_abandoned()) return std::nullopt;
    if (!artifact.ok()) return artifact.status();
    count([](CacheStatistics* s) { ++s->memory_hits; });
    return CacheResult{*std::move(artifact), CacheOutcome::kMemoryHit};
  }

  absl::StatusOr<CacheResult> lead(const Key& key, Flight* flight,
                                   absl::FunctionRef<absl::StatusOr<Artifact>()> compile,
                                   const BeforeWait& before_wait) {
    Claims claims;  // held until the entry is published
    CacheOutcome outcome = CacheOutcome::kDiskHit;
    absl::StatusOr<ArtifactPtr> result = without_exceptions(
        [&] { return load_or_compile(key, flight, compile, before_wait, &claims, &outcome); });
    land(key, flight, result);
    if (!result.ok()) return result.status();
    // Published after landing, so that the other callers do not wait for the disk.
    if (outcome == CacheOutcome::kCompiled || outcome == CacheOutcome::kRemoteHit)
      publish(key, **result, outcome);
    return CacheResult{*std::move(result), outcome};
  }

  absl::StatusOr<ArtifactPtr> load_or_compile(const Key& key, Flight* flight,
                                              absl::FunctionRef<absl::StatusOr<Artifact>()> compile,
                                              const BeforeWait& before_wait, Claims* claims,
                                              CacheOutcome* outcome) {
    absl::StatusOr<ArtifactPtr> loaded = load(key, /*first_look=*/true);
    if (!loaded.ok()) {
      loaded = load_from_bundles(key);
      if (loaded.ok()) *outcome = CacheOutcome::kBundleHit;
    }
    bool asks_remote = remote_ != nullptr;
    if (!loaded.ok() && before_wait != nullptr) {
      if (remote_ != nullptr) loaded = load_from_remote(key);
      if (loaded.ok()) *outcome = CacheOutcome::kRemoteHit;
      asks_remote &= !absl::IsDataLoss(loaded.status());  // a defect is reported only once
      if (!loaded.ok() && before_wait() == OnMiss::kStop) {
        flight->abandon();
        *outcome = CacheOutcome::kStopped;
        return ArtifactPtr();
      }
    }
    if (loaded.ok()) return keep(key, *loaded);
    flight->turn_slow();
    if (disk_ != nullptr) {
      claims->machine.emplace(disk_->lock(key, flight->urgency(), lock_timeout_seconds_));
      // An idle compile first waits for an urgent one. The lock is released at once.
      if (flight->urgency() == Urgency::kIdle) (void)disk_->lock(key, Urgency::kNow, lock_timeout_seconds_);
      // Load again: the previous holder of the lock, or anyone who did not wait for it, may have published.
      loaded = load(key, /*first_look=*/false);
    }
    if (loaded.ok()) return keep(key, *loaded);
    if (asks_remote) {
      loaded = load_from_remote_or_lease(key, flight->urgency(), &claims->fleet);
      *outcome = CacheOutcome::kRemoteHit;
      if (loaded.ok()) return keep(key, *loaded);
    }
    *outcome = CacheOutcome::kCompiled;
    count([](CacheStatistics* s) { ++s->misses; });
    LATHE_ASSIGN_OR_RETURN(Artifact artifact, compile());
    return keep(key, std::make_shared<const Artifact>(std::move(artifact)));
  }

  void land(const Key& key, Flight* flight, const absl::StatusOr<ArtifactPtr>& result) noexcept {
    Flights* flights = flights_.find();
    if (flights == nullptr) return;  // in a child that `compile` forked, where nobody waits
    {
      const std::lock_guard<std::mutex> lock(flights->mutex);
      const auto at = flights->by_key.find(key.text);
      if (at != flights->by_key.end() && at->second.get() == flight) flights->by_key.erase(at);
    }
    flight->land(result);
  }

  // Best effort: the caller already has its kernel, and no failure here may take it away.
  void publish(const Key& key, const Artifact& artifact, CacheOutcome outcome) noexcept {
    try {
      try {
        const std::string payload = serialize(artifact);
        if (remote_ != nullptr && outcome == CacheOutcome::kCompiled) (void)remote_->put(key, payload);
        if (disk_ == nullptr) return;
        const absl::StatusOr<uint64_t> written = disk_->write(key, payload);
        if (written.ok()) count([&](CacheStatistics* s) { s->disk_bytes_written += *written; });
      } catch (const std::exception& e) {
        logger_.log(LogLevel::kWarning,
                    absl::StrCat("cache: entry ", key.fingerprint, " is not written: ", e.what()));
      }
    } catch (...) {
      // There is not even memory to log it.
    }
  }

  const std::unique_ptr<DiskStore> disk_;  // null: memory only
  const absl::Status refused_;             // see the constructor
  BundleSet bundles_;
  const std::unique_ptr<RemoteStore> remote_;            // null: no remote store
  const std::unique_ptr<RemoteRecords> remote_records_;  // null: no remote store
  // In ticks of steady_clock: until then, do not wait for other processes that compile.
  std::atomic<int64_t> fruitless_until_{INT64_MIN};
  const double lock_timeout_seconds_, lease_seconds_;
  const Logger logger_;
  PerProcess<Flights> flights_;
  mutable ForkSafeMutex mutex_;  // never held while reading, compiling, writing or logging
  std::unordered_map<std::string, ArtifactPtr> table_;
  CacheStatistics statistics_;
};

}  // namespace

absl::string_view name_of(CacheOutcome o) {
  switch (o) {
    case CacheOutcome::kMemoryHit: return "memory hit";
    case CacheOutcome::kDiskHit: return "disk hit";
    case CacheOutcome::kBundleHit: return "bundle hit";
    case CacheOutcome::kRemoteHit: return "remote hit";
    case CacheOutcome::kCompiled: return "compiled";
    case CacheOutcome::kStopped: return "stopped";
  }
  return "unknown";
}

std::unique_ptr<ArtifactCache> make_cache(const CacheOptions& options) {
  std::unique_ptr<DiskStore> disk;
  absl::Status refused;
  if (!options.directory.empty()) {
    disk = std::make_unique<DiskStore>(options.directory, options.cap_bytes, options.logger);
    if (const absl::Status safe = disk->check(); !safe.ok()) {
      disk = nullptr;
      refused = absl::UnavailableError(absl::StrCat("cache directory refused: ", safe.message()));
      options.logger.log(
          LogLevel::kWarning,
          absl::StrCat("cache: directory refused, kernels are kept in memory only: ", safe.message()));
    }
  }
  return std::make_unique<MemoryOverDisk>(std::move(disk), std::move(refused), options);
}

}  // namespace lathe
