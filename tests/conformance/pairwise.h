// Pairwise covering arrays: few cases that contain every pair of levels of every two factors.
#pragma once

#include <vector>

#include "numbers.h"

namespace lathe::conformance {

// One row per case, one level per factor: row[f] is in [0, levels[f]). The algorithm is greedy; the array depends on
// the state of `random`.
std::vector<std::vector<int>> covering_array(const std::vector<int>& levels, Random* random);

}  // namespace lathe::conformance
