// How the rows of a group are divided among kernels.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "dispatch/group_kernels.h"
#include "dispatch/routing.h"

namespace lathe {

// Most kernels for more than 16 rows compute whole tiles of 16 rows, and one of the kernels for 1 to 16 rows may be faster
// for the rows of the last tile. Where the predicted times say so, makes two groups of one: the whole tiles, then the other
// rows. `kernels` are those of the product of one group, `is_uneven` says which of them it takes (GroupKernels::find()).
// Misses are treated as its policy says.
absl::Status divide_groups(GroupKernels* kernels, absl::FunctionRef<bool(const RoutedGroup&)> is_uneven,
                           Routing* routing);

}  // namespace lathe
