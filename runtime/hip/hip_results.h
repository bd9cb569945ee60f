// The hipError_t codes and the status that each becomes.
#pragma once

#include <vector>

#include "runtime/gpu/library.h"

namespace lathe {

std::vector<gpu::ResultRow> hip_results();

}  // namespace lathe
