#include "request/dispatch_key.h"

namespace lathe {

uint64_t hash_of(const DispatchKey& key) {
  const uint64_t tuning =
      static_cast<uint64_t>(static_cast<uint32_t>(key.split_k)) << 32 | static_cast<uint32_t>(key.candidate);
  const uint64_t external =
      static_cast<uint64_t>(key.external) << 8 | static_cast<uint64_t>(key.external_which);
  return hash_of(key.problem) ^ tuning * 0x9e3779b97f4a7c15u ^ external * 0xc2b2ae3d27d4eb4fu;
}

}  // namespace lathe
