// Links an AMDGPU object to a code object (hsaco) with lld inside this process.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace lathe {

// Takes less than a millisecond. Thread-safe: a mutex serialises calls, because lld has global state.
absl::StatusOr<std::string> link_amdgpu(const std::string& object);

}  // namespace lathe
