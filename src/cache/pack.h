// Packs cache directories and bundles into one bundle, and imports a bundle into a cache directory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "cache/cache.h"

namespace lathe {

struct PackReport {
  uint64_t entries = 0;         // keys that were added
  uint64_t payloads = 0;        // distinct artifacts among them
  uint64_t duplicates = 0;      // keys that were already there; the first is kept
  uint64_t defects = 0;         // damaged entries, skipped
  uint64_t bytes = 0;           // bytes of the bundle's file
  uint64_t unpacked_bytes = 0;  // bytes of the artifacts
  uint64_t records = 0;         // records that were added; only `defects` and `bytes` count them too
};

using KeepKey = absl::FunctionRef<bool(absl::string_view key_text)>;

// Writes a bundle of the keys that `keep` accepts from `sources` (cache directories and bundles). `path` is
// replaced completely or not at all. Damaged entries are skipped and counted, but a bundle with a damaged
// index is an error. kInvalidArgument: a source is neither a directory nor a bundle. kUnavailable: a
// directory or an entry could not be read; then no bundle is written, because it would be incomplete.
absl::StatusOr<PackReport> write_bundle(const std::string& path, const std::vector<std::string>& sources,
                                        KeepKey keep);

// Writes the bundle's artifacts and records to the directory of `cache`, except those it already has.
// kUnavailable: the cache has no writable directory.
absl::StatusOr<PackReport> import_bundle(const std::string& path, ArtifactCache& cache);

}  // namespace lathe
