// The CUresult codes and the status that each becomes.
#pragma once

#include <vector>

#include "runtime/gpu/library.h"

namespace lathe {

std::vector<gpu::ResultRow> cuda_results();

}  // namespace lathe
