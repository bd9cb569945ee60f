// From a miss of the dispatch table to a kernel: the oracle's plan, what records say of it, the stores, the
// compiler.
#pragma once

#include <string>

#include "api/device.h"

namespace lathe {

struct PreparedClass {
  const DispatchEntry* entry;  // null on a device that is only described: the artifact is in the cache then
  CacheOutcome outcome;
  std::string kernel;  // the config's
};

// Takes the class' tuning record's candidate, else the oracle's choice; where no store has the latter's
// artifact but that of the candidate that the class' plan record names, that one. Compiles what is nowhere
// and then records the plan; kNotFound instead where it may not compile.
absl::StatusOr<PreparedClass> prepare_class(lathe_device& device, const DispatchKey& key,
                                            bool may_compile = true);

}  // namespace lathe
