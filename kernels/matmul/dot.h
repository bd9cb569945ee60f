// What emits "dot" and what prices it agree here: how B is fetched ahead, and whether A is copied.
#pragma once

#include <cstdint>

namespace lathe {

// What is fetched for every line read, beside what the hardware fetches: a line of the columns or the block
// that come next, into L2; a line kNearBytes ahead in the row that is read, into L1; or both. It is
// CompileConfig::stages of "dot".
enum class DotFetch : int32_t { kNext = 1, kNear = 2, kBoth = 3 };
constexpr bool fetches_next(DotFetch f) { return f == DotFetch::kNext || f == DotFetch::kBoth; }
constexpr bool fetches_near(DotFetch f) { return f == DotFetch::kNear || f == DotFetch::kBoth; }
constexpr int64_t kNearBytes = 1024;

// Lines this far apart fall into the same set of L1.
constexpr int64_t kWayBytes = 4096;

// Whether "dot" by whole rows copies A beside the cache sets of B. `row_bytes`: of a row of B; `a_bytes`: of
// the copy. Rows of B a multiple of a quarter of a way apart leave sets that A's lines can have to themselves
// (4x6, K = 4096, M = 8 by 4096 on Zen 4: 4.15 ms where A and B begin alike modulo a way, 2.63 where not);
// tiles of fewer sums wait for memory either way.
constexpr bool dot_copies_a(int64_t register_sums, int64_t row_bytes, int64_t a_bytes) {
  constexpr int64_t kFewestSums = 20, kMostBytes = 512 << 10;
  return register_sums >= kFewestSums && row_bytes % (kWayBytes / 4) == 0 && a_bytes <= kMostBytes;
}

}  // namespace lathe
