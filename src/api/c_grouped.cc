// The C functions of grouped products.
#include "absl/strings/str_cat.h"
#include "api/boundary.h"
#include "api/c_arguments.h"
#include "api/manifest_call.h"
#include "dispatch/grouped.h"
#include "dispatch/grouped_gpu.h"
#include "lathe/lathe.h"

using lathe::at_boundary;
using lathe::null_argument;

extern "C" {

lathe_status lathe_grouped_matmul(lathe_device* device, lathe_stream stream,
                                  const lathe_grouped_matmul_desc* desc) {
  return at_boundary([&]() -> absl::Status {
    if (device == nullptr) return null_argument("grouped_matmul", "device");
    return lathe::run_grouped_matmul(*device, stream, desc);
  });
}

lathe_status lathe_manifest_add_grouped_matmul(lathe_manifest* manifest, const char* name,
                                               const lathe_grouped_matmul_desc* desc, int64_t m_max) {
  return at_boundary([&]() -> absl::Status {
    constexpr const char* kCall = "lathe_manifest_add_grouped_matmul";
    if (manifest == nullptr) return null_argument(kCall, "manifest");
    lathe::GroupedRequest weight;
    LATHE_RETURN_IF_ERROR(
        lathe::read_grouped_matmul(desc, lathe::Purpose::kWarm, lathe::kAnyDevice, nullptr, &weight));
    const lathe::GroupedSizes sizes = lathe::sizes_of(weight);
    LATHE_RETURN_IF_ERROR(
        lathe::add_weight(kCall, weight.product.request, m_max, name, &manifest->manifest, sizes));
    if (!weight.up) return absl::OkStatus();
    return lathe::add_weight(kCall, weight.up->request, m_max, name, &manifest->manifest, sizes);
  });
}

}  // extern "C"
