// From a miss of the dispatch table to a kernel: the oracle's plan, what records say of it, the stores, the
// compiler.
#pragma once

#include <string>

#include "dispatch/device.h"

namespace lathe {

struct PreparedClass {
  const DispatchEntry* entry;  // null on a device that is only described: the artifact is in the cache then
  CacheOutcome outcome;
  std::string kernel;  // the config's
};

// What a class is prepared for: how much of its time is there, and what may come of that.
enum class PrepareFor {
  kCall,    // one waits: what a plan record names is taken where its kernel is there, outdated or not
  kLater,   // nobody waits, as in a warm-up: what an outdated record names only where nothing can be compiled
  kIdle,    // as kLater, in the background: whoever wants it meanwhile does not wait for that
  kNoMiss,  // what is in the stores alone; else a miss_error
};

// Takes the class' tuning record's candidate, else the oracle's choice; where no store has the latter's
// artifact but that of the candidate that the class' plan record names, that one. Compiles what is nowhere
// and then records the plan.
//
// A plan record is outdated that another build of the oracle wrote, or whose candidate is today more than
// kDetail slower than the oracle's choice, by its own prediction. For a call such a one still serves, so that
// an upgrade stalls nobody, and the choice is compiled in the background, for contexts made afterwards: what
// a process dispatches stays.
constexpr double kDetail = 0.1;
absl::StatusOr<PreparedClass> prepare_class(lathe_device& device, const DispatchKey& key, PrepareFor purpose);

// Compiles the oracle's choice for the stores, unless they have it, and records it. Nothing is loaded.
absl::Status refresh_class(lathe_device& device, const DispatchKey& key);

}  // namespace lathe
