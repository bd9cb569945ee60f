// Links ELF objects into this process with LLVM's JITLink.
//
// Each object becomes a library of its own: it sees no symbol but its own, so a kernel that needs libm, an
// f16 helper or any other outside symbol is refused by name instead of binding to whatever the host process
// happens to carry. Code pages are never writable and executable at once. Linked code stays until the loader
// is destroyed.
//
// LLVM's session is made at the first load, not before; a child of a fork makes its own, for another thread
// may have been linking, and keeps what is linked. It registers no signal handlers, starts no threads and
// keeps no state outside this object, so other copies of LLVM in the process are not disturbed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/per_process.h"
#include "runtime/cpu/perf_map.h"

namespace lathe {

class ObjectLoader {
 public:
  // With a map, every function that is linked gets a line in it.
  explicit ObjectLoader(std::optional<PerfMap> map = std::nullopt);
  ~ObjectLoader();

  // Links `object` and returns the addresses of `symbols`, in order. kInvalidArgument for a corrupt object,
  // one of another architecture, an undefined symbol (named), or a wanted symbol that is absent or is not
  // code (named). Thread-safe. About 0.1 ms for a small kernel, and once about as much for the session.
  // `object` is not kept.
  absl::StatusOr<std::vector<void*>> link(absl::string_view object, const std::vector<std::string>& symbols);

 private:
  struct Session;
  struct Linker;
  absl::StatusOr<Session*> session();

  const std::optional<PerfMap> map_;
  const std::unique_ptr<PerProcess<Linker>> linker_;
};

}  // namespace lathe
