// Makes a plan or an explanation of a request on a device, for MatmulRequest, ArgmaxRequest, MatmulArgmaxRequest and
// ElementwiseRequest.
#pragma once

#include "cli/request.h"
#include "cli/session.h"

namespace lathe::cli {

// As lathe_plan_matmul: on a device of this machine the kernel is loaded, or compiled first.
template <typename Request>
absl::StatusOr<Plan> plan(lathe_device* device, const Request& request);
// As lathe_explain_matmul: compiles, loads and stores nothing.
template <typename Request>
absl::StatusOr<Json> explain(lathe_device* device, const Request& request);

}  // namespace lathe::cli
