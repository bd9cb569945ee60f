#include "api/beside_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace lathe {

std::string beside_library(absl::string_view name) {
  Dl_info info;
  static const char anchor = 0;
  if (dladdr(&anchor, &info) == 0 || info.dli_fname == nullptr) return std::string(name);
  const std::string self = info.dli_fname;
  const size_t slash = self.rfind('/');
  return absl::StrCat(slash == std::string::npos ? "." : self.substr(0, slash), "/", name);
}

}  // namespace lathe
