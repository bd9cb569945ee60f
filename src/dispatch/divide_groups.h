// How the rows of a group are divided among kernels.
#pragma once

#include "absl/status/status.h"
#include "dispatch/device.h"
#include "dispatch/routing.h"
#include "request/request.h"

namespace lathe {

// Most kernels for more than 16 rows compute whole tiles of 16 rows, and one of the kernels for 1 to 16 rows may be faster
// for the rows of the last tile. Where the predicted times say so, makes two groups of one: the whole tiles, then the other
// rows. `product` is that of one group with any number of rows. Misses are treated as its policy says.
absl::Status divide_groups(lathe_device& device, const Request& product, Routing* routing);

}  // namespace lathe
