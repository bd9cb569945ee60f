// Warm-up: every class of a weight, prepared in parallel.
#pragma once

#include <vector>

#include "api/device.h"

namespace lathe {

// Checks m_max; empty when no request of the weight needs a kernel.
absl::StatusOr<std::vector<ProblemClass>> classes_of(const lathe_device& device, const Request& weight,
                                                     int64_t m_max);

// Prepares every class on up to the context's workers threads: onto a device with a driver, into the cache
// for one that is only described. Then the driver sets launch memory aside for the largest of them with M up
// to `m_max`. Ends at the first error and returns it; what was prepared stays.
absl::Status warm_classes(lathe_device& device, const Request& weight,
                          const std::vector<ProblemClass>& classes, int64_t m_max, lathe_warm_report* report);

}  // namespace lathe
