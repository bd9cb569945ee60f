// Links ELF objects into this process with LLVM's JITLink.
//
// Each object becomes its own library and sees no symbols but its own. So a kernel that needs libm, an f16
// helper or any other outside symbol is rejected with the symbol's name, instead of binding to a function of
// the host process. Linked code stays until the loader is destroyed (code_memory.h).
//
// LLVM's sessions are created when a link needs one. They register no signal handlers, start no threads and
// keep no state outside this object, so other copies of LLVM in the process are not disturbed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/fork_safe_mutex.h"
#include "runtime/cpu/perf_map.h"

namespace lathe {

class ObjectLoader {
 public:
  // With a map, every linked function gets a line in it.
  explicit ObjectLoader(std::optional<PerfMap> map = std::nullopt);
  ~ObjectLoader();

  // Links `object` and returns the addresses of `symbols`, in order. `object` is not kept. kInvalidArgument,
  // with the name of the symbol if there is one: the object is corrupt or for another architecture, has an
  // undefined symbol, or a wanted symbol is absent or not a function. kUnavailable: the system forbids
  // executable memory. kResourceExhausted: no memory for the code.
  //
  // Thread-safe: each link uses its own session, so there are as many sessions as concurrent links. Costs
  // about 0.1 ms for a small kernel, and as much again for a new session.
  //
  // Throws std::bad_alloc if memory is short. LLVM's frames do not unwind then: their memory leaks, and the
  // session, whose locks may be held, is not used again. Code that was linked before stays valid.
  absl::StatusOr<std::vector<void*>> link(absl::string_view object, const std::vector<std::string>& symbols);

 private:
  struct Session;
  absl::StatusOr<std::unique_ptr<Session>> take();
  absl::StatusOr<std::vector<void*>> link_in(Session& session, absl::string_view object,
                                             const std::vector<std::string>& symbols);

  const std::optional<PerfMap> map_;
  // Guards idle_. The child of a fork uses the sessions that are idle then, and linked code stays valid.
  ForkSafeMutex mutex_;
  std::unique_ptr<Session> idle_;  // head of a list, linked by `next`
};

}  // namespace lathe
