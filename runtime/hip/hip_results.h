// What HIP's results mean to a caller.
#pragma once

#include <vector>

#include "runtime/gpu/library.h"

namespace lathe {

std::vector<gpu::ResultRow> hip_results();

}  // namespace lathe
