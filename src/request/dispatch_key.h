// The dispatch table's key: a problem class with the overrides of one request.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/external.h"
#include "core/problem.h"

namespace lathe {

// Requests with a lathe_tuning or a lathe_external have dispatch entries of their own. Keys are compared as
// bytes, so the struct has no padding.
struct DispatchKey {
  ProblemClass problem;
  int32_t split_k = 0;    // forced number of splits; 0: the oracle chooses
  int32_t candidate = 0;  // 1 + forced rank; 0: the oracle chooses
  // From a lathe_external (core/external.h). kDefault and kAny: the context's choice.
  ExternalUse external = ExternalUse::kDefault;
  ExternalId external_which = ExternalId::kAny;

  bool operator==(const DispatchKey& o) const { return std::memcmp(this, &o, sizeof *this) == 0; }
};
static_assert(sizeof(DispatchKey) == sizeof(ProblemClass) + 16,
              "no padding: DispatchKey is compared bytewise");
uint64_t hash_of(const DispatchKey& key);

}  // namespace lathe
