// The dispatch table's key: a problem class with the overrides of one request.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/external.h"
#include "core/problem.h"

namespace lathe {

// A request overridden by a lathe_tuning or a lathe_external has entries of its own. Compared bytewise: no
// padding.
struct DispatchKey {
  ProblemClass problem;
  int32_t split_k = 0;    // forced factor; 0: the oracle's
  int32_t candidate = 0;  // 1 + forced rank; 0: the oracle's
  // A lathe_external's (core/external.h); kDefault and kAny: the context's.
  ExternalUse external = ExternalUse::kDefault;
  ExternalId external_which = ExternalId::kAny;

  bool operator==(const DispatchKey& o) const { return std::memcmp(this, &o, sizeof *this) == 0; }
};
static_assert(sizeof(DispatchKey) == sizeof(ProblemClass) + 16,
              "no padding: DispatchKey is compared bytewise");
uint64_t hash_of(const DispatchKey& key);

}  // namespace lathe
