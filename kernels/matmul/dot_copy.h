// Whether "dot" by whole rows copies A beside the cache sets of B: what emits it and what prices it agree
// here.
#pragma once

#include <cstdint>

namespace lathe {

// Lines this far apart fall into the same set of L1.
constexpr int64_t kWayBytes = 4096;

// `row_bytes`: of a row of B; `a_bytes`: of the copy. Rows of B a multiple of a quarter of a way apart leave
// sets that A's lines can have to themselves (4x6, K = 4096, M = 8 by 4096 on Zen 4: 4.15 ms where A and B
// begin alike modulo a way, 2.63 where not); tiles of fewer sums wait for memory either way.
constexpr bool dot_copies_a(int64_t register_sums, int64_t row_bytes, int64_t a_bytes) {
  constexpr int64_t kFewestSums = 20, kMostBytes = 512 << 10;
  return register_sums >= kFewestSums && row_bytes % (kWayBytes / 4) == 0 && a_bytes <= kMostBytes;
}

}  // namespace lathe
