#include "core/external.h"

namespace lathe {

absl::string_view name_of(ExternalId id) {
  switch (id) {
    case ExternalId::kAny: return "any";
    case ExternalId::kOpenBlas: return "openblas";
    case ExternalId::kOneDnn: return "onednn";
    case ExternalId::kCublasLt: return "cublaslt";
    case ExternalId::kHipblasLt: return "hipblaslt";
  }
  return "unknown";
}

bool parse(absl::string_view name, ExternalId* out) {
  for (ExternalId id : kExternalIds) {
    if (name != name_of(id)) continue;
    *out = id;
    return true;
  }
  return false;
}

absl::string_view name_of(ExternalUse use) {
  switch (use) {
    case ExternalUse::kDefault: return "default";
    case ExternalUse::kOff: return "off";
    case ExternalUse::kAllow: return "allow";
    case ExternalUse::kPrefer: return "prefer";
    case ExternalUse::kRequire: return "require";
  }
  return "unknown";
}

}  // namespace lathe
