#include "base/absolute_path.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace lathe {

absl::StatusOr<std::string> absolute_path(absl::string_view path) {
  if (path.empty() || path[0] == '/') return std::string(path);
  const std::unique_ptr<char, decltype(&free)> here(getcwd(nullptr, 0), &free);
  if (here != nullptr) return absl::StrCat(here.get(), absl::EndsWith(here.get(), "/") ? "" : "/", path);
  if (errno == ENOMEM) throw std::bad_alloc();
  return absl::UnavailableError(
      absl::StrCat("'", path, "' is relative, and the current directory is unknown: ", std::strerror(errno)));
}

}  // namespace lathe
