// Every CUresult and what it means to a caller.
#pragma once

#include <vector>

#include "runtime/gpu/library.h"

namespace lathe {

std::vector<gpu::ResultRow> cuda_results();

}  // namespace lathe
