// Records in the store that machines share: as entries of their own kind, and a list of those of tuning.
//
// The list is one text, "tuned1": for each record the XXH3-64 of its key's text and of its bytes,
// little-endian, 16 bytes, the later of a key going before the earlier. It is why a process asks the server
// once for all its classes, of which most were never tuned, and not once for each; and how it learns of a
// record that was measured anew since it took one over. A hint: what it says wrongly costs a look or hides a
// record.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "cache/remote_store.h"
#include "core/plan_record.h"

namespace lathe {

// Thread-safe. Waits for the server as its store does, and for other threads that ask it no longer.
class RemoteRecords {
 public:
  // A list is taken to be good for this long.
  static constexpr double kListSeconds = 60;

  RemoteRecords(RemoteStore* store, Logger logger) : store_(store), logger_(std::move(logger)) {}

  // Whether the server may have a record of the key that is not `held`, the bytes of the one at hand or "".
  bool may_have_another(RecordKind kind, const Key& key, absl::string_view held);
  // kNotFound; kDataLoss: what is there is no such record; kUnavailable.
  absl::StatusOr<PlanRecord> get(const Key& key);
  // Replaces what is there. Best effort: the store says what fails.
  void put(const PlanRecord& record);

 private:
  using Clock = std::chrono::steady_clock;
  struct List {
    std::timed_mutex mutex;
    Clock::time_point good_until;                      // under mutex, as what follows
    std::unordered_map<uint64_t, uint64_t> digest_of;  // a record's, by its key's
  };
  absl::StatusOr<size_t> read_list(List* list);
  void put_on_list(uint64_t key, uint64_t digest);

  RemoteStore* const store_;
  const Logger logger_;
  PerProcess<List> list_;
};

}  // namespace lathe
