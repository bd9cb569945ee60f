#include "cache/remote_store.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "cache/entry_file.h"

namespace lathe {
namespace {

// As of a file: no kernel comes near it.
constexpr size_t kMostBytes = size_t{256} << 20;

std::string random_token() {
  unsigned char bytes[16] = {};
  (void)!getrandom(bytes, sizeof(bytes), GRND_NONBLOCK);
  return absl::StrCat(
      absl::BytesToHexString(absl::string_view(reinterpret_cast<char*>(bytes), sizeof(bytes))), "-",
      getpid());
}

}  // namespace

absl::StatusOr<RemoteAddress> parse_remote(absl::string_view url) {
  const auto wrong = [&] {
    return absl::InvalidArgumentError(absl::StrCat("'", url, "' is not redis://host[:port][/prefix]"));
  };
  RemoteAddress address;
  absl::string_view rest = url;
  if (!absl::ConsumePrefix(&rest, "redis://")) return wrong();
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(rest, absl::MaxSplits('/', 1));
  if (!parts.second.empty()) address.prefix = std::string(parts.second);
  absl::string_view host = parts.first, port;
  if (absl::ConsumePrefix(&host, "[")) {
    const size_t end = host.find(']');
    if (end == absl::string_view::npos) return wrong();
    port = host.substr(end + 1);
    host = host.substr(0, end);
  } else if (const size_t colon = host.find(':'); colon != absl::string_view::npos) {
    port = host.substr(colon);
    host = host.substr(0, colon);
  }
  uint32_t number = 0;
  if (host.empty() || host.find_first_of("@ ") != absl::string_view::npos) return wrong();
  if (!port.empty()) {
    if (!absl::ConsumePrefix(&port, ":") || !absl::SimpleAtoi(port, &number) || number == 0 || number > 65535)
      return wrong();
    address.server.port = absl::StrCat(number);
  }
  address.server.host = std::string(host);
  return address;
}

std::string RemoteStore::name(absl::string_view kind, const Key& key) const {
  return absl::StrCat(address_.prefix, ":", kind, ":", key.fingerprint);
}

struct RemoteStore::State {
  const pid_t owner = getpid();
  const std::string token = random_token();  // tells this process' leases from others'
  std::timed_mutex mutex;
  std::optional<Redis> connection;  // under mutex, as all that follows
  int failures = 0;                 // in a row
  Clock::time_point closed_until;
};

RemoteStore::State& RemoteStore::state() {
  State* state = state_.load(std::memory_order_acquire);
  while (state == nullptr || state->owner != getpid()) {
    auto fresh = std::make_unique<State>();
    if (state_.compare_exchange_strong(state, fresh.get(), std::memory_order_acq_rel))
      return *fresh.release();
  }
  return *state;
}

RemoteStore::~RemoteStore() {
  State* state = state_.load(std::memory_order_acquire);
  if (state != nullptr && state->owner == getpid()) delete state;
}

absl::StatusOr<RedisReply> RemoteStore::command_locked(State& mine,
                                                       const std::vector<absl::string_view>& words) {
  // A connection that has been idle may have been closed by the server: then once more, on a fresh one.
  const bool fresh = !mine.connection.has_value();
  if (fresh) {
    LATHE_ASSIGN_OR_RETURN(mine.connection, Redis::connect(address_.server, kConnectSeconds));
  }
  absl::StatusOr<RedisReply> reply = mine.connection->command(words, kCommandSeconds, kMostBytes);
  if (fresh || !absl::IsUnavailable(reply.status())) return reply;
  mine.connection.reset();
  return command_locked(mine, words);
}

absl::StatusOr<RedisReply> RemoteStore::command(const std::vector<absl::string_view>& words) {
  absl::StatusOr<RedisReply> reply = absl::UnavailableError("the remote store is left alone");
  double pause = 0;
  int failures_before = 0;
  State& mine = state();
  {
    const std::unique_lock<std::timed_mutex> lock(mine.mutex, std::chrono::duration<double>(kQueueSeconds));
    if (!lock.owns_lock()) return absl::UnavailableError("other threads wait for the remote store");
    const Clock::time_point begin = Clock::now();
    if (begin < mine.closed_until) return reply;
    reply = command_locked(mine, words);
    failures_before = mine.failures;
    // What the server says of itself (OOM, READONLY) to a write is no reason not to read.
    const bool fails = !reply.ok() && (words[0] == "GET" || !absl::IsInternal(reply.status()));
    const bool slow = Clock::now() - begin > std::chrono::duration<double>(kSlowSeconds);
    if (fails) mine.connection.reset();
    if (fails || slow) {
      pause = std::min(kMostPauseSeconds, kPauseSeconds * (1 << std::min(mine.failures++, 4)));
      mine.closed_until = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(pause * 1000));
    } else if (reply.ok()) {
      mine.failures = 0;
    }
  }
  report(reply.status(), failures_before, pause);
  if (reply.ok() || pause == 0) return reply;
  return absl::UnavailableError(reply.status().message());
}

// Without the lock: a log callback is the host's. The first failure in a row is worth a warning.
void RemoteStore::report(const absl::Status& status, int failures_before, double pause) {
  const std::string who =
      absl::StrCat("cache: remote store ", address_.server.host, ":", address_.server.port);
  if (status.ok() && pause == 0) {
    if (failures_before > 0) logger_.log(LogLevel::kInfo, absl::StrCat(who, " is back"));
  } else if (pause > 0) {
    logger_.log(
        failures_before == 0 ? LogLevel::kWarning : LogLevel::kInfo,
        absl::StrCat(who, ": ", status.ok() ? "slow" : status.message(), "; left alone for ", pause, " s"));
  } else {
    logger_.log(refused_write_.exchange(true) ? LogLevel::kInfo : LogLevel::kWarning,
                absl::StrCat(who, " refuses a write: ", status.message()));
  }
}

absl::StatusOr<std::string> RemoteStore::get(const Key& key) {
  LATHE_ASSIGN_OR_RETURN(const RedisReply reply, command({"GET", name("entry1", key)}));
  if (reply.kind == RedisReply::Kind::kNil) return absl::NotFoundError("the remote store has no entry");
  if (reply.kind != RedisReply::Kind::kString) return absl::DataLossError("the reply is no string");
  LATHE_ASSIGN_OR_RETURN(const EntryView view, parse_entry(reply.text));
  if (view.key_text != key.text) return absl::DataLossError("its key is another one");
  return std::string(view.payload);
}

absl::Status RemoteStore::put(const Key& key, absl::string_view payload) {
  return command({"SET", name("entry1", key), make_entry(key.text, payload)}).status();
}

absl::Status RemoteStore::take_lease(const Key& key) {
  const std::string milliseconds = absl::StrCat(static_cast<int64_t>(kLeaseSeconds * 1000));
  LATHE_ASSIGN_OR_RETURN(const RedisReply reply,
                         command({"SET", name("lease1", key), state().token, "NX", "PX", milliseconds}));
  if (reply.kind == RedisReply::Kind::kStatus) return absl::OkStatus();
  return absl::AlreadyExistsError("another process has the lease");
}

void RemoteStore::give_back_lease(const Key& key) {
  // Where it has run out it may be another's by now.
  static constexpr absl::string_view kScript =
      "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
  try {
    (void)command({"EVAL", kScript, "1", name("lease1", key), state().token});
  } catch (...) {
    // No memory, or what a log callback throws: it runs out by itself.
  }
}

}  // namespace lathe
