// What the library makes of a request on a device: its plan, or the explanation alone. MatmulRequest,
// ArgmaxRequest, MatmulArgmaxRequest and ElementwiseRequest have both.
#pragma once

#include "cli/request.h"
#include "cli/session.h"

namespace lathe::cli {

// As lathe_plan_matmul: on a device that runs here the kernel is compiled, or loaded.
template <typename Request>
absl::StatusOr<Plan> plan(lathe_device* device, const Request& request);
// As lathe_explain_matmul: nothing is compiled, loaded or stored.
template <typename Request>
absl::StatusOr<Json> explain(lathe_device* device, const Request& request);

}  // namespace lathe::cli
