// The candidates of a request, by its plan's own account.
#pragma once

#include <vector>

#include "lathe/lathe.h"
#include "nlohmann/json.hpp"

namespace lathe::conformance {

// The legal ones in rank order: element r - 1 is what lathe_tuning.candidate r takes. Fails the test when
// there is none.
std::vector<nlohmann::json> legal_candidates(lathe_device* device, const lathe_matmul_desc& desc);

}  // namespace lathe::conformance
