// What a grouped_matmul has beyond the functions of every op (ops.h).
#pragma once

#include "cli/session.h"
#include "reference/grouped_matmul.h"

namespace lathe::cli {

// The product of all experts that lathe_pack_weights takes.
lathe_matmul_desc weight_of(const lathe_grouped_matmul_desc& desc);
// As describe_packed() of a matmul.
lathe_status describe_packed(lathe_device* device, const reference::GroupedMatmulRequest& r,
                             lathe_grouped_matmul_desc* desc, size_t* bytes);

}  // namespace lathe::cli
