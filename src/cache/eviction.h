// Keeps a store within its bytes: the least recently used entries go first (use_journal.h says which those
// are).
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace lathe {

struct StoreSize {
  uint64_t bytes = 0;    // of entries and records that are there now
  uint64_t evicted = 0;  // entries that went
  absl::Status kept;     // of the first that was to go and could not be removed: why
};

// Reclaims what ended processes left, and if the entries take more than `limit` bytes removes the least
// recently used until they take no more than `goal`; records are of them. A reader that has opened an entry
// keeps it, and several processes may do this at once: they agree on the order. Entries that the journal does
// not know go before the others, by name. An error: the directory could not be looked at, and nothing went.
absl::StatusOr<StoreSize> evict(int directory, uint64_t limit, uint64_t goal);

}  // namespace lathe
