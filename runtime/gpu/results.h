// What the result codes of the drivers mean: CUresult and hipError_t. A result without a row is INTERNAL.
#pragma once

#include <vector>

#include "runtime/gpu/library.h"

namespace lathe::gpu {

std::vector<ResultRow> cuda_results();
std::vector<ResultRow> hip_results();

}  // namespace lathe::gpu
