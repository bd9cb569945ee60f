// Pairwise covering arrays: few cases in which every two levels of every two factors meet.
#pragma once

#include <vector>

#include "numbers.h"

namespace lathe::conformance {

// One row a case, one level a factor: row[f] in [0, levels[f]). Greedy, a different array for every state of
// `random`.
std::vector<std::vector<int>> covering_array(const std::vector<int>& levels, Random* random);

}  // namespace lathe::conformance
