#include "api/recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <exception>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/text_file.h"
#include "base/status.h"
#include "cache/key_lock.h"
#include "core/manifest.h"

namespace lathe {
namespace {

struct KeyHash {
  size_t operator()(const DispatchKey& key) const { return hash_of(key); }
};

// *locked: nobody can have written over it.
absl::Status join_into(const std::string& path, const Manifest& met, double patience_seconds, bool* locked) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const FileDescriptor folder = open_file(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
  if (!folder.valid()) return absl::UnavailableError(absl::StrCat(directory, ": no such directory"));
  const KeyLock lock =
      KeyLock::acquire(folder.get(), absl::StrCat(path.substr(slash + 1), ".lock"), patience_seconds);
  *locked = lock.held();
  Manifest all;
  const absl::StatusOr<std::string> there = read_text_file(path);
  if (there.ok() && !there->empty()) {
    absl::StatusOr<Manifest> read = parse_manifest(*there);
    if (!read.ok())
      return absl::InvalidArgumentError(absl::StrCat(path, ": left alone: ", read.status().message()));
    all = *std::move(read);
  } else if (!there.ok() && !absl::IsNotFound(there.status())) {
    return there.status();
  }
  all.add(met);
  return replace_text_file(path, manifest_text(all));
}

}  // namespace

struct Recorder::State {
  const pid_t pid = getpid();
  std::mutex mutex;
  std::unordered_set<DispatchKey, KeyHash> seen;  // under mutex, as what follows
  Manifest met;
  bool failed = false;
  std::mutex writing;  // held while the file is written, so that later arrivals find their class in it
  // Under `writing`, as what follows: how many of `met` are in the file for sure. Fewer than all only after a
  // write without the lock.
  size_t written = 0;
  double patience = kPatienceSeconds;
  bool told = false;  // that the lock is not to be had
};

// The parent's state may be locked for ever by a thread that is not here, so a child has one of its own; the
// parent's is never touched again.
Recorder::State& Recorder::state() {
  State* state = state_.load(std::memory_order_acquire);
  while (state == nullptr || state->pid != getpid()) {
    auto fresh = std::make_unique<State>();
    if (state_.compare_exchange_strong(state, fresh.get(), std::memory_order_acq_rel))
      return *fresh.release();
  }
  return *state;
}

Recorder::~Recorder() {
  State* state = state_.load(std::memory_order_acquire);
  if (state == nullptr || state->pid != getpid()) return;
  try {
    // No caller waits for this one.
    state->patience = kPatienceSeconds;
    if (!state->failed) write(*state);
    const size_t unsure = state->met.entries.size() - state->written;
    if (!state->failed && unsure > 0)
      logger_.log(
          LogLevel::kWarning,
          absl::StrCat("recording: ", unsure, unsure == 1 ? " class was" : " classes were", " written to ",
                       path_, " without its lock: another process may have written over that"));
  } catch (...) {
    // No memory, or what a log callback throws.
  }
  delete state;
}

void Recorder::note(const DispatchKey& key) noexcept {
  if (!enabled()) return;
  try {
    // A request that no kernel can be of would spoil the file for all who share it.
    if (!check_class(key.problem).ok()) return;
    State& mine = state();
    {
      const std::lock_guard<std::mutex> lock(mine.mutex);
      if (mine.failed || !mine.seen.insert(key).second) return;
      mine.met.entries.push_back({"", key.problem, 0, key.split_k, key.candidate});
    }
    write(mine);
  } catch (...) {
    // No memory, or what a log callback throws: the class is recorded when another process meets it.
  }
}

void Recorder::write(State& mine) {
  const std::lock_guard<std::mutex> writes(mine.writing);
  Manifest fresh;
  {
    const std::lock_guard<std::mutex> lock(mine.mutex);
    fresh.entries.assign(mine.met.entries.begin() + static_cast<ptrdiff_t>(mine.written),
                         mine.met.entries.end());
  }
  if (fresh.entries.empty()) return;  // whoever wrote before took it along
  bool locked = false;
  const absl::Status status = join_into(path_, fresh, mine.patience, &locked);
  if (status.ok() && locked) mine.written += fresh.entries.size();
  if (status.ok() && !locked) {
    mine.patience = 0;
    if (!std::exchange(mine.told, true))
      logger_.log(LogLevel::kWarning, absl::StrCat("recording: ", path_,
                                                   ".lock is not to be had: no call waits for "
                                                   "it again, and classes are written without it"));
  }
  if (status.ok()) return;
  {
    const std::lock_guard<std::mutex> lock(mine.mutex);
    mine.failed = true;
  }
  logger_.log(LogLevel::kWarning, absl::StrCat("recording ends: ", status.message()));
}

}  // namespace lathe
