// Replaces redis.cc in a build without hiredis.
#include "cache/redis.h"

namespace lathe {

absl::StatusOr<Redis> Redis::connect(const RedisAddress&, double, NameLookup*) {
  return absl::UnimplementedError("this build has no Redis client (hiredis)");
}

absl::StatusOr<RedisReply> Redis::command(const std::vector<absl::string_view>&, RedisKinds, double, size_t) {
  return absl::UnimplementedError("this build has no Redis client (hiredis)");
}

}  // namespace lathe
