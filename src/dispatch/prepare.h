// The miss path: from a class that the dispatch table does not have to its entry there. prepare_class() goes
// through five steps: choose a plan (choose.h), find its kernel, compile it, load it, publish it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cache/cache.h"
#include "dispatch/choose.h"
#include "dispatch/dispatch_table.h"
#include "runtime/driver.h"

struct lathe_device;

namespace lathe {

struct PreparedClass {
  const DispatchEntry* entry;  // null on a described device; the artifact is then in the stores
  CacheOutcome outcome;
  std::string kernel;  // of the chosen plan's config
};

// Who asks for the class. This decides whether it may be compiled, how urgent that is, and whether an outdated
// plan record may serve.
enum class PrepareFor {
  kCall,    // A caller waits. The kernel of a plan record serves, outdated or not.
  kLater,   // Nobody waits, as in a warm-up. The kernel of an outdated record serves only if compiling fails.
  kIdle,    // As kLater, on the background thread. A caller that needs the kernel does not wait for it.
  kNoMiss,  // Nothing is compiled. The stores must have a kernel; otherwise the result is a miss_error.
};

// Prepares the kernel of the class: that of its tuning record or of the oracle's choice. If no store has it, but
// a store has the kernel that the class's plan record names, that one is used. Otherwise it is compiled, and a
// plan record is written.
//
// If the record is outdated, its kernel serves kCall all the same, so that no call waits after an upgrade. The
// oracle's choice is then compiled in the background for later contexts; this process keeps the entry it has.
absl::StatusOr<PreparedClass> prepare_class(lathe_device& device, const DispatchKey& key, PrepareFor purpose);

// Compiles the oracle's choice into the stores, unless they have it, and writes its plan record. Loads nothing.
absl::Status refresh_class(lathe_device& device, const DispatchKey& key);

// ---- The steps that other parts use on their own (tuning, fallback kernels).

// What to do about a kernel that no store has.
struct CompilePolicy {
  // False: the result is a miss_error, and a stored artifact that the device refuses is not compiled again.
  bool may_compile = true;
  // If given: called before the kernel is compiled or another caller's compile is waited for. OnMiss::kStop ends
  // the step with CacheOutcome::kStopped.
  ArtifactCache::BeforeWait before_compile = nullptr;
  Urgency urgency = Urgency::kNow;
};

// The artifact of the choice, from memory, from the stores, or compiled. Counted, timed and traced. The device
// may be a described one.
absl::StatusOr<CacheResult> find_or_compile(lathe_device& device, const ProblemClass& problem,
                                            const Choice& choice, const CompilePolicy& policy = {});

// Loads the artifact's code. The device must have a driver. Counted, timed and traced. Of an error,
// refuses_code() says whether the artifact is the cause, so that another artifact may be loaded.
absl::StatusOr<std::unique_ptr<LoadedKernel>> load_artifact(lathe_device& device, const ProblemClass& problem,
                                                            const Artifact& artifact);
bool refuses_code(const absl::Status& status);

struct Loaded {
  const LoadedKernel* kernel;  // null only with CacheOutcome::kStopped
  CacheOutcome outcome;
};
// Finds or compiles the kernel of the choice and loads it. The device must have a driver. A stored artifact that
// the device refuses is compiled again and replaced in the stores. kInternal: the device refuses code that was
// compiled just now.
absl::StatusOr<Loaded> load_kernel(lathe_device& device, const ProblemClass& problem, const Choice& choice,
                                   const CompilePolicy& policy = {});

// The table's entry for a kernel. It holds the launch config if that is the same for all requests of the class.
DispatchEntry make_entry(const DispatchKey& key, const LoadedKernel* kernel, int32_t wanted_splits);

}  // namespace lathe
