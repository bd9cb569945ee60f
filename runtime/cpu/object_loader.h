// Links ELF objects into this process with LLVM's JITLink.
//
// Each object becomes a library of its own: it sees no symbol but its own, so a kernel that needs libm, an
// f16 helper or any other outside symbol is refused by name instead of binding to whatever the host process
// happens to carry. Linked code stays until the loader is destroyed (code_memory.h).
//
// LLVM's sessions are made as links need them, none before the first. They register no signal handlers, start
// no threads and keep no state outside this object, so other copies of LLVM in the process are not disturbed.
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
  // With a map, every function that is linked gets a line in it.
  explicit ObjectLoader(std::optional<PerfMap> map = std::nullopt);
  ~ObjectLoader();

  // Links `object` and returns the addresses of `symbols`, in order. kInvalidArgument for a corrupt object,
  // one of another architecture, an undefined symbol (named), or a wanted symbol that is absent or is not
  // code (named). kUnavailable, with the system's causes: no memory may become executable.
  // kResourceExhausted: no memory for the code. Thread-safe: each link has a session to itself, so there are
  // as many sessions as concurrent links.
  // About 0.1 ms for a small kernel, and about as much for a session. `object` is not kept.
  //
  // std::bad_alloc where memory is short, past LLVM's frames, which do not unwind: what they held is leaked
  // and their session, whose locks may be held, is used no more. Code linked before runs on.
  absl::StatusOr<std::vector<void*>> link(absl::string_view object, const std::vector<std::string>& symbols);

 private:
  struct Session;
  absl::StatusOr<std::unique_ptr<Session>> take();
  absl::StatusOr<std::vector<void*>> link_in(Session& session, absl::string_view object,
                                             const std::vector<std::string>& symbols);

  const std::optional<PerfMap> map_;
  // Guards idle_. A child of a fork links in sessions that are idle there, and what is linked stays.
  ForkSafeMutex mutex_;
  std::unique_ptr<Session> idle_;  // and behind it, by `next`, the others
};

}  // namespace lathe
