#include "dispatch/dispatch_table.h"

namespace lathe {

DispatchTable::DispatchTable() {
  const ForkSafeLock lock(mutex_);
  generations_.push_back(std::make_unique<Slots>(64));
  current_.store(generations_.back().get(), std::memory_order_release);
}

void DispatchTable::place(Slots& slots, const DispatchEntry* entry) {
  size_t i = hash_of(entry->key);
  while (slots.slot[i & slots.mask].load(std::memory_order_relaxed) != nullptr) ++i;
  slots.slot[i & slots.mask].store(entry, std::memory_order_release);
}

absl::string_view name_of(ChosenBy by) {
  switch (by) {
    case ChosenBy::kOracle: return "oracle";
    case ChosenBy::kRequest: return "request";
    case ChosenBy::kTuning: return "tuning record";
    case ChosenBy::kRecord: return "plan record";
  }
  return "unknown";
}

const DispatchEntry* DispatchTable::insert(const DispatchEntry& entry) {
  const ForkSafeLock lock(mutex_);
  if (const DispatchEntry* present = find(entry.key)) return present;
  entries_.push_back(std::make_unique<DispatchEntry>(entry));
  Slots& slots = *generations_.back();
  if (entries_.size() * 2 <= slots.mask + 1) {
    place(slots, entries_.back().get());
  } else {
    generations_.push_back(std::make_unique<Slots>((slots.mask + 1) * 2));
    for (const auto& e : entries_) place(*generations_.back(), e.get());
    current_.store(generations_.back().get(), std::memory_order_release);
  }
  return entries_.back().get();
}

size_t DispatchTable::size() const {
  const ForkSafeLock lock(mutex_);
  return entries_.size();
}

}  // namespace lathe
