// The store that machines share: the same entries as on disk, in Redis, under the digest of their key; and a
// lease per key, so that one process of a fleet compiles it. It is optional. Whatever the server does, a call
// costs at most kConnectSeconds plus kCommandSeconds, and after a failure nothing for a while.
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

// Parses "redis://[[user]:password@]host[:port][/database][/prefix]". An IPv6 address is in brackets, user
// and password are percent-encoded where needed ("%40" for @), and the database is a number.
// kInvalidArgument: the URL is malformed; the message never has the password. kUnimplemented: "rediss://".
absl::StatusOr<RemoteAddress> parse_remote(absl::string_view url);

// Thread-safe. It has one connection and runs one command at a time.
class RemoteStore {
 public:
  // Connecting includes the resolution of the host's name.
  static constexpr double kConnectSeconds = 0.5, kCommandSeconds = 1;
  // After a failure the server is not used for this long, doubled for each further failure.
  static constexpr double kPauseSeconds = 5, kMostPauseSeconds = 60;
  // A reply that takes longer than kSlowSeconds counts as a failure. A caller waits at most kQueueSeconds
  // while other threads use the connection.
  static constexpr double kSlowSeconds = 0.25, kQueueSeconds = 1.5;

  // A lease that is not renewed expires after `lease_seconds`.
  RemoteStore(RemoteAddress address, Logger logger, double lease_seconds = kLeaseSeconds);
  ~RemoteStore();

  // Returns the payload of the key's entry. kNotFound: there is none. kDataLoss: the value is damaged or
  // holds another key. kUnavailable: the server failed or is paused after a failure.
  absl::StatusOr<std::string> get(const Key& key, EntryKind kind = EntryKind::kArtifact);
  // Replaces the entry of the key.
  absl::Status put(const Key& key, absl::string_view payload, EntryKind kind = EntryKind::kArtifact);
  // A text that belongs to no key, stored under `name` as it is. A text of more than `most` bytes is
  // kUnavailable; other errors as for get.
  absl::StatusOr<std::string> get_text(absl::string_view name, size_t most);
  absl::Status put_text(absl::string_view name, absl::string_view text);
  absl::Status append_text(absl::string_view name, absl::string_view text);
  double lease_seconds() const { return lease_seconds_; }
  // Takes the lease on the key; each urgency has its own. kAlreadyExists: another process holds it.
  // kUnavailable: as for get.
  absl::Status take_lease(const Key& key, Urgency urgency);
  // Extends the lease by `lease_seconds` if this store still holds it. Best effort.
  void renew_lease(const Key& key, Urgency urgency) noexcept;
  // Whether any process holds the lease; false if the server fails.
  bool is_leased(const Key& key, Urgency urgency);
  // Gives the lease back if this store still holds it.
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

// Holds a lease that was taken: a thread renews it until the destructor gives it back.
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
