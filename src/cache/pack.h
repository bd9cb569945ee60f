// Between stores and bundles: many sources become one bundle, a bundle's artifacts become entries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "cache/cache.h"

namespace lathe {

struct PackReport {
  uint64_t entries = 0;         // keys that were taken
  uint64_t payloads = 0;        // distinct artifacts among them
  uint64_t duplicates = 0;      // keys that were there already: the first stays
  uint64_t defects = 0;         // refused, left out
  uint64_t bytes = 0;           // of the bundle's file
  uint64_t unpacked_bytes = 0;  // of the artifacts
  uint64_t records = 0;         // taken; in none of the counts above but `defects` and `bytes`
};

using KeepKey = absl::FunctionRef<bool(absl::string_view key_text)>;

// Writes the bundle `path` (whole or not at all: a temporary beside it is renamed) of what `keep` takes from
// `sources`: cache directories and bundles. kInvalidArgument: a source is neither. kUnavailable: a directory
// or an entry could not be read: all that is whole is in a bundle, or there is none. Only what a bundle's
// index promises can be defective alone; a bundle whose index is damaged is refused.
absl::StatusOr<PackReport> write_bundle(const std::string& path, const std::vector<std::string>& sources,
                                        KeepKey keep);

// Publishes the bundle's artifacts and records in `cache`'s directory, those that it has excepted.
// kUnavailable: the cache has no writable directory.
absl::StatusOr<PackReport> import_bundle(const std::string& path, ArtifactCache& cache);

}  // namespace lathe
