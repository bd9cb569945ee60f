#include "compile_client/beside_library.h"

#include <dlfcn.h>
#include <limits.h>

#include <cstring>
#include <exception>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/absolute_path.h"

namespace lathe {
namespace {

// dladdr gives the name that this library was loaded by. A relative name is valid only until the host changes
// its directory, so it is made absolute while the library is loaded. An array needs no destructor at exit.
class OwnDirectory {
 public:
  OwnDirectory() noexcept {
    Dl_info info;
    static const char anchor = 0;
    if (dladdr(&anchor, &info) == 0 || info.dli_fname == nullptr) return;
    try {
      const std::string file = absolute_path(info.dli_fname).value_or(info.dli_fname);
      const size_t slash = file.rfind('/'), size = slash == std::string::npos ? 0 : slash + 1;
      if (size < sizeof(path_)) std::memcpy(path_, file.data(), size);
    } catch (const std::exception&) {
      // No memory. This must not make loading the library fail.
    }
  }
  // Ends with a slash; "": unknown.
  const char* path() const { return path_; }

 private:
  char path_[PATH_MAX] = {};
};

const OwnDirectory own_directory;

}  // namespace

std::string beside_library(absl::string_view name) { return absl::StrCat(own_directory.path(), name); }

}  // namespace lathe
