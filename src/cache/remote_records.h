// Records in the remote store: each is an entry of its own kind, and a list names the tuning records.
//
// The list is one text, "tuned1". For each record it has 16 bytes, little-endian: the XXH3-64 of the key's
// text and the XXH3-64 of the record's bytes. A later pair of a key replaces an earlier one. With the list a
// process asks the server once for all classes, most of which were never tuned, and it notices a record that
// was measured again. A wrong list costs one read or hides a record, nothing else.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "cache/remote_store.h"
#include "core/plan_record.h"

namespace lathe {

// Thread-safe. Waits for the server as long as RemoteStore does, and as long for other threads that use it.
class RemoteRecords {
 public:
  // How long a list is used before it is read again.
  static constexpr double kListSeconds = 60;

  RemoteRecords(RemoteStore* store, Logger logger) : store_(store), logger_(std::move(logger)) {}

  // Whether the server may have a record of the key other than `held`: the bytes of the local record, or "".
  bool may_have_another(RecordKind kind, const Key& key, absl::string_view held);
  // kNotFound: no such record. kDataLoss: the value is not a record of this key. kUnavailable: the server
  // failed.
  absl::StatusOr<PlanRecord> get(const Key& key);
  // Replaces the record on the server. Best effort: the store logs failures.
  void put(const PlanRecord& record);

 private:
  using Clock = std::chrono::steady_clock;
  struct List {
    std::timed_mutex mutex;
    Clock::time_point good_until;                      // under mutex, like the map
    std::unordered_map<uint64_t, uint64_t> digest_of;  // digest of a key's text -> digest of its record
  };
  absl::StatusOr<size_t> read_list(List* list);
  void put_on_list(uint64_t key, uint64_t digest);

  RemoteStore* const store_;
  const Logger logger_;
  PerProcess<List> list_;
};

}  // namespace lathe
