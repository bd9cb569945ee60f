// The matmul routines of external libraries.
#pragma once

#include "kernels/candidates_external.h"

namespace lathe {

const std::vector<ExternalRow>& matmul_externals();

}  // namespace lathe
