// How many sums "direct" keeps of one element of D: one, or of few, for which an FMA would wait for the last,
// one of even and one of odd places of K.
#pragma once

#include <cstdint>

namespace lathe {

constexpr int64_t direct_chains(int64_t register_sums) { return register_sums < 8 ? 2 : 1; }

}  // namespace lathe
