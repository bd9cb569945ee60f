// External libraries' products.
#pragma once

#include "kernels/candidates_external.h"

namespace lathe {

const std::vector<ExternalRow>& matmul_externals();

}  // namespace lathe
