// External libraries of matrix products: their names, and what policy says of them. Values of both enums are
// those of lathe_external_library and lathe_external_use.
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
  kDefault = 0,  // of a request: the context's
  kOff = 1,      // never
  kAllow = 2,    // beside Lathe's own kernels, by predicted time
  kPrefer = 3,   // ahead of Lathe's own kernels
  kRequire = 4,  // nothing else
};
absl::string_view name_of(ExternalUse use);  // "default", "off", "allow", "prefer", "require"

struct ExternalChoice {
  ExternalUse use = ExternalUse::kOff;
  ExternalId which = ExternalId::kAny;  // which library kPrefer and kRequire mean; with kAllow the only one
  bool operator==(const ExternalChoice& o) const { return use == o.use && which == o.which; }
};

// A library that was looked for on a device.
struct ExternalFound {
  ExternalId id = ExternalId::kAny;
  std::string version;  // "0.3.21"
  std::string absent;   // why it cannot be used, "" if it can
};

// What the oracle is told. Which libraries there are is looked up by whoever asks it.
struct ExternalPolicy {
  ExternalChoice choice;
  int32_t threads = 1;               // that a library on the CPU may use
  std::vector<ExternalFound> found;  // with kOff nothing need have been looked for
};

}  // namespace lathe
