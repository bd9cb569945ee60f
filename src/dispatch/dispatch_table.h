// The map of the hot path, from a problem class (and the request's overrides) to a loaded kernel.
//
// Open addressing; entries are never removed. Readers take no lock: they load the current slot array and probe it
// with acquire loads. Writers hold a mutex. To grow, a writer fills a larger array and publishes it; old arrays
// live as long as the table, so readers may still probe them. Such a reader may miss an entry that was inserted
// meanwhile. It then takes the miss path, where insert() returns that entry.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/fork_safe_mutex.h"
#include "core/external.h"
#include "core/plan.h"
#include "core/problem.h"
#include "core/recipe.h"
#include "request/dispatch_key.h"
#include "runtime/driver.h"

namespace lathe {

// Who chose the candidate of a class. kRequest: a lathe_tuning. kTuning: a tuning record. kRecord: a plan record.
enum class ChosenBy : int32_t { kOracle, kRequest, kTuning, kRecord };
absl::string_view name_of(ChosenBy by);  // "oracle", "request", "tuning record", "plan record"

struct DispatchEntry {
  DispatchKey key;
  const LoadedKernel* kernel = nullptr;
  int32_t wanted_splits = 1;
  // True if all requests of the class have the same launch config. Then a hit evaluates no formula.
  bool launch_is_fixed = false;
  LaunchConfig fixed_launch;
  Plan plan = {};  // the kernel was compiled from it
  ChosenBy by = ChosenBy::kOracle;
  bool without_external = false;  // the class was planned again without the external library that failed

  // A fixed config is copied straight to `out`. Building it on the stack first would store and load it twice.
  void set_launch_config(const ProblemClass& problem, const Dims& dims, LaunchConfig* out) const {
    if (__builtin_expect(launch_is_fixed, 1))
      *out = fixed_launch;
    else
      *out = make_launch_config(kernel->recipe(), problem, dims, wanted_splits);
  }
};

class DispatchTable {
 public:
  DispatchTable();
  DispatchTable(const DispatchTable&) = delete;
  DispatchTable& operator=(const DispatchTable&) = delete;

  // Null when absent. No lock, no allocation. The entry lives as long as the table.
  const DispatchEntry* find(const DispatchKey& key) const {
    const Slots& slots = *current_.load(std::memory_order_acquire);
    for (size_t i = hash_of(key);; ++i) {
      const DispatchEntry* entry = slots.slot[i & slots.mask].load(std::memory_order_acquire);
      if (entry == nullptr || entry->key == key) return entry;
    }
  }
  // Returns the entry that is in the table afterwards. The first entry inserted for a key stays.
  const DispatchEntry* insert(const DispatchEntry& entry);
  size_t size() const;

 private:
  struct Slots {
    explicit Slots(size_t count) : mask(count - 1), slot(new std::atomic<const DispatchEntry*>[count]()) {}
    size_t mask;  // count - 1; the count is a power of two, and at least half of the slots are empty
    std::unique_ptr<std::atomic<const DispatchEntry*>[]> slot;
  };
  static void place(Slots& slots, const DispatchEntry* entry);

  mutable ForkSafeMutex mutex_;
  std::vector<std::unique_ptr<DispatchEntry>> entries_;  // under mutex_
  std::vector<std::unique_ptr<Slots>> generations_;      // under mutex_
  std::atomic<const Slots*> current_;
};

}  // namespace lathe
