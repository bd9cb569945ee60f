// External matmul libraries: their names and the policy for their use. The values of both enums equal those
// of lathe_external_library and lathe_external_use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace lathe {

enum class ExternalId : int32_t { kAny = 0, kOpenBlas = 1, kOneDnn = 2, kCublasLt = 3, kHipblasLt = 4 };
inline constexpr ExternalId kExternalIds[] = {ExternalId::kOpenBlas, ExternalId::kOneDnn,
                                              ExternalId::kCublasLt, ExternalId::kHipblasLt};
absl::string_view name_of(ExternalId id);  // "openblas", "onednn", "cublaslt", "hipblaslt"; "any"
bool parse(absl::string_view name, ExternalId* out);

enum class ExternalUse : int32_t {
  kDefault = 0,  // in a request: use the context's setting
  kOff = 1,      // never use external libraries
  kAllow = 2,    // rank them with Lathe's own kernels by predicted time
  kPrefer = 3,   // rank them before Lathe's own kernels
  kRequire = 4,  // use nothing else
};
absl::string_view name_of(ExternalUse use);  // "default", "off", "allow", "prefer", "require"

struct ExternalChoice {
  ExternalUse use = ExternalUse::kOff;
  ExternalId which = ExternalId::kAny;  // the only library that may be used; kAny: all of them
  bool operator==(const ExternalChoice& o) const { return use == o.use && which == o.which; }
};

// The result of looking for one library on a device.
struct ExternalFound {
  ExternalId id = ExternalId::kAny;
  std::string version;  // "0.3.21"
  std::string absent;   // why it cannot be used; empty if it can
};

// The oracle's input. The caller of the oracle looks for the libraries, because the oracle is a pure function.
struct ExternalPolicy {
  ExternalChoice choice;
  int32_t threads = 1;               // threads that a CPU library may use
  std::vector<ExternalFound> found;  // may be empty with kOff
};

}  // namespace lathe
