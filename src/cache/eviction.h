// Keeps a store below its limit of bytes. The least recently used entries (use_journal.h) are removed first.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace lathe {

struct StoreSize {
  uint64_t bytes = 0;    // of the entries and records that are left
  uint64_t evicted = 0;  // how many entries were removed
  absl::Status kept;     // the error of the first file that could not be removed
};

// Removes what ended processes left. If the entries and records take more than `limit` bytes, also removes
// the least recently used until at most `goal` bytes are left. Entries that the journal does not have go
// first, by name. A reader that has opened an entry can still read it. Several processes may evict at once:
// they agree on the order. An error means that the directory could not be read and nothing was removed.
absl::StatusOr<StoreSize> evict(int directory, uint64_t limit, uint64_t goal);

}  // namespace lathe
