// Links an AMDGPU object into a code object (hsaco) with lld, in process.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace lathe {

// Under a millisecond; serialised by a mutex, since lld keeps global state.
absl::StatusOr<std::string> link_amdgpu(const std::string& object);

}  // namespace lathe
