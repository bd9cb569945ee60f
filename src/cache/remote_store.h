// The store that machines share: entries as they lie on disk, over Redis, under the digest of their key, and
// a lease on a key, so that one of a fleet compiles it. Optional throughout: whatever the server does costs
// at most kConnectSeconds and kCommandSeconds, once, and then nothing for a while.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/log.h"
#include "base/own_thread.h"
#include "base/per_process.h"
#include "cache/cache.h"
#include "cache/entry_file.h"
#include "cache/name_lookup.h"
#include "cache/redis.h"
#include "core/key.h"

namespace lathe {

struct RemoteAddress {
  RedisAddress server;
  std::string prefix = "lathe";
};

// "redis://[[user]:password@]host[:port][/database][/prefix]": an IPv6 address in brackets, user and password
// percent-encoded where they must be ("%40" for @), the database a number. kInvalidArgument says what is
// wrong with it, and never the password. kUnimplemented: "rediss://".
absl::StatusOr<RemoteAddress> parse_remote(absl::string_view url);

// Thread-safe: one connection, one command at a time.
class RemoteStore {
 public:
  // The name's resolution is part of connecting.
  static constexpr double kConnectSeconds = 0.5, kCommandSeconds = 1;
  // After a failure the server is left alone for this long, twice as long after each further one.
  static constexpr double kPauseSeconds = 5, kMostPauseSeconds = 60;
  // A server whose answer takes longer is left alone like one that fails, and so is one that a caller has
  // waited this long for while other threads used it.
  static constexpr double kSlowSeconds = 0.25, kQueueSeconds = 1.5;

  // A lease that nobody renews ends by itself after `lease_seconds`.
  RemoteStore(RemoteAddress address, Logger logger, double lease_seconds = kLeaseSeconds);
  ~RemoteStore();

  // The payload of the key's entry. kNotFound; kDataLoss: what is there is not the key's entry, whole;
  // kUnavailable: the server failed, or is left alone.
  absl::StatusOr<std::string> get(const Key& key, EntryKind kind = EntryKind::kArtifact);
  // Replaces what is there.
  absl::Status put(const Key& key, absl::string_view payload, EntryKind kind = EntryKind::kArtifact);
  // A text that is of no key, under a name of its own: as it is there, of at most `most` bytes (more is
  // kUnavailable). kNotFound; kDataLoss; kUnavailable.
  absl::StatusOr<std::string> get_text(absl::string_view name, size_t most);
  absl::Status put_text(absl::string_view name, absl::string_view text);
  absl::Status append_text(absl::string_view name, absl::string_view text);
  double lease_seconds() const { return lease_seconds_; }
  // Takes the lease on the key; there is one for each urgency. kAlreadyExists: it is another's; kUnavailable
  // as above.
  absl::Status take_lease(const Key& key, Urgency urgency);
  // Another `lease_seconds` for this store's lease, if it still is. Best effort.
  void renew_lease(const Key& key, Urgency urgency) noexcept;
  // Whether somebody has one; not where the server fails.
  bool is_leased(const Key& key, Urgency urgency);
  // Gives back this store's lease, if it still is.
  void give_back_lease(const Key& key, Urgency urgency) noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  struct State;
  absl::StatusOr<RedisReply> command(const std::vector<absl::string_view>& words, RedisKinds expected,
                                     size_t most);
  absl::StatusOr<RedisReply> command_locked(State& mine, const std::vector<absl::string_view>& words,
                                            RedisKinds expected, size_t most);
  absl::StatusOr<std::string> read(const std::string& whole_name, size_t most);
  absl::Status write(const std::vector<absl::string_view>& words, RedisReply::Kind expected);
  void report(const absl::Status& status, int failures_before, double pause);
  std::string name(absl::string_view kind, absl::string_view of) const;
  std::string lease_name(const Key& key, Urgency urgency) const;
  std::string lease_milliseconds() const;

  const RemoteAddress address_;
  const Logger logger_;
  const double lease_seconds_;
  const std::unique_ptr<PerProcess<State>> state_;
  std::atomic<bool> refused_write_{false};
};

// A lease that was taken: renewed, on a thread of its own, until it is given back at the end.
class RemoteLease {
 public:
  RemoteLease(RemoteStore* store, const Key& key, Urgency urgency);
  RemoteLease(const RemoteLease&) = delete;
  RemoteLease& operator=(const RemoteLease&) = delete;
  ~RemoteLease();

 private:
  void renew() noexcept;

  RemoteStore* const store_;
  const Key key_;
  const Urgency urgency_;
  OwnThread thread_;
};

}  // namespace lathe
