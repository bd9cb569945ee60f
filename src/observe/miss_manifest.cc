#include "observe/miss_manifest.h"

#include <unistd.h>

#include <exception>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "core/manifest.h"
#include "observe/text_file.h"

namespace lathe {
namespace {

struct KeyHash {
  size_t operator()(const DispatchKey& key) const { return hash_of(key); }
};

absl::Status join_into(const std::string& path, const Manifest& met, double patience_seconds, bool* locked) {
  return update_text_file(path, patience_seconds, locked,
                          [&](absl::string_view there) -> absl::StatusOr<std::string> {
                            Manifest all;
                            if (!there.empty()) {
                              LATHE_ASSIGN_OR_RETURN(all, parse_manifest(there));
                            }
                            all.add(met);
                            return manifest_text(all);
                          });
}

}  // namespace

struct MissManifest::State {
  const pid_t pid = getpid();
  std::mutex mutex;
  std::unordered_set<DispatchKey, KeyHash> seen;  // under mutex, like the next two
  Manifest met;
  bool failed = false;
  std::mutex writing;  // held while the file is written; a thread that waits for it finds its class written
  // Under `writing`, like the next two: how many entries of `met` are certainly in the file. Less than all only
  // after a write without the file's lock.
  size_t written = 0;
  double patience = kPatienceSeconds;
  bool told = false;  // the warning about the lock was logged
};

// A child of a fork has a state of its own. The parent's may be locked by a thread that the child does not have,
// so the child never touches it.
MissManifest::State& MissManifest::state() {
  State* state = state_.load(std::memory_order_acquire);
  while (state == nullptr || state->pid != getpid()) {
    auto fresh = std::make_unique<State>();
    if (state_.compare_exchange_strong(state, fresh.get(), std::memory_order_acq_rel))
      return *fresh.release();
  }
  return *state;
}

MissManifest::~MissManifest() {
  State* state = state_.load(std::memory_order_acquire);
  if (state == nullptr || state->pid != getpid()) return;
  try {
    // No call waits now, so it may wait for the lock again.
    state->patience = kPatienceSeconds;
    if (!state->failed) write(*state);
    const size_t unsure = state->met.entries.size() - state->written;
    if (!state->failed && unsure > 0)
      logger_.log(
          LogLevel::kWarning,
          absl::StrCat("recording: ", unsure, unsure == 1 ? " class was" : " classes were", " written to ",
                       path_, " without its lock; another process may have overwritten them"));
  } catch (...) {
    // Out of memory, or a log callback threw.
  }
  delete state;
}

void MissManifest::add(const DispatchKey& key,
                       const std::shared_ptr<const ElementwiseProgram>& program) noexcept {
  if (!enabled()) return;
  try {
    // A class that no request can have would make the file invalid for all who share it.
    if (!check_class(key.problem).ok()) return;
    State& mine = state();
    {
      const std::lock_guard<std::mutex> lock(mine.mutex);
      if (mine.failed || !mine.seen.insert(key).second) return;
      mine.met.entries.push_back({"", key.problem, 0, key.split_k, key.candidate, program});
    }
    write(mine);
  } catch (...) {
    // Out of memory, or a log callback threw. The class is added when another process misses it.
  }
}

void MissManifest::write(State& mine) {
  const std::lock_guard<std::mutex> writes(mine.writing);
  Manifest fresh;
  {
    const std::lock_guard<std::mutex> lock(mine.mutex);
    fresh.entries.assign(mine.met.entries.begin() + static_cast<ptrdiff_t>(mine.written),
                         mine.met.entries.end());
  }
  if (fresh.entries.empty()) return;  // another thread has written it
  bool locked = false;
  const absl::Status status = join_into(path_, fresh, mine.patience, &locked);
  if (status.ok() && locked) mine.written += fresh.entries.size();
  if (status.ok() && !locked) {
    mine.patience = 0;
    if (!std::exchange(mine.told, true))
      logger_.log(LogLevel::kWarning, absl::StrCat("recording: cannot get ", path_,
                                                   ".lock; from now on no call waits for it and "
                                                   "classes are written without it"));
  }
  if (status.ok()) return;
  {
    const std::lock_guard<std::mutex> lock(mine.mutex);
    mine.failed = true;
  }
  logger_.log(LogLevel::kWarning, absl::StrCat("recording stopped: ", status.message()));
}

}  // namespace lathe
