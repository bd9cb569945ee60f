#include "cache/remote_store.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"

namespace lathe {
namespace {

using Kind = RedisReply::Kind;

constexpr size_t kMostBytes = size_t{256} << 20;  // the limit of a file, too; far above any kernel
constexpr size_t kMostReply = 64 << 10;           // limit of a reply to a write

absl::string_view name_of(EntryKind kind) { return kind == EntryKind::kRecord ? "record1" : "entry1"; }

std::string random_token() {
  unsigned char bytes[16] = {};
  (void)!getrandom(bytes, sizeof(bytes), GRND_NONBLOCK);
  return absl::StrCat(
      absl::BytesToHexString(absl::string_view(reinterpret_cast<char*>(bytes), sizeof(bytes))), "-",
      getpid());
}

// For messages: hides everything before an '@', whether the URL is well-formed or not.
std::string without_secret(absl::string_view url) {
  const size_t at = url.rfind('@'), scheme = url.find("://");
  if (at == absl::string_view::npos) return std::string(url);
  const bool has_scheme = scheme != absl::string_view::npos && scheme < at;
  return absl::StrCat(has_scheme ? url.substr(0, scheme + 3) : "", "***", url.substr(at));
}

// Decodes "%40" to '@'. Returns false if two hexadecimal digits do not follow each '%'.
bool decode_percent(absl::string_view text, std::string* out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out->push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size() || !absl::ascii_isxdigit(text[i + 1]) || !absl::ascii_isxdigit(text[i + 2]))
      return false;
    out->append(absl::HexStringToBytes(text.substr(i + 1, 2)));
    i += 2;
  }
  return true;
}

// Parses "user:password" or ":password".
bool read_user(absl::string_view text, RedisAddress* server) {
  const size_t colon = text.find(':');
  return colon != absl::string_view::npos && decode_percent(text.substr(0, colon), &server->user) &&
         decode_percent(text.substr(colon + 1), &server->password) && !server->password.empty();
}

// Parses "host", "host:port" or "[address]:port".
bool read_host(absl::string_view host, RedisAddress* server) {
  absl::string_view port;
  if (absl::ConsumePrefix(&host, "[")) {
    const size_t end = host.find(']');
    if (end == absl::string_view::npos) return false;
    port = host.substr(end + 1);
    host = host.substr(0, end);
  } else if (const size_t colon = host.find(':'); colon != absl::string_view::npos) {
    port = host.substr(colon);
    host = host.substr(0, colon);
  }
  uint32_t number = 0;
  if (host.empty() || host.find(' ') != absl::string_view::npos) return false;
  server->host = std::string(host);
  if (port.empty()) return true;
  if (!absl::ConsumePrefix(&port, ":") || !absl::SimpleAtoi(port, &number) || number == 0 || number > 65535)
    return false;
  server->port = absl::StrCat(number);
  return true;
}

// Parses "", "prefix", "database" or "database/prefix".
bool read_path(absl::string_view path, RemoteAddress* address) {
  const absl::string_view first = path.substr(0, path.find('/'));
  if (!first.empty() && absl::c_all_of(first, absl::ascii_isdigit)) {
    if (!absl::SimpleAtoi(first, &address->server.database)) return false;
    path.remove_prefix(std::min(path.size(), first.size() + 1));
  }
  if (!path.empty()) address->prefix = std::string(path);
  return true;
}

}  // namespace

absl::StatusOr<RemoteAddress> parse_remote(absl::string_view url) {
  const absl::Status wrong = absl::InvalidArgumentError(absl::StrCat(
      "'", without_secret(url), "' is not redis://[[user]:password@]host[:port][/database][/prefix]"));
  if (absl::StartsWith(url, "rediss://"))
    return absl::UnimplementedError(absl::StrCat(
        "'", without_secret(url), "' asks for TLS, which is not supported; use redis:// through a tunnel"));
  RemoteAddress address;
  if (!absl::ConsumePrefix(&url, "redis://")) return wrong;
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(url, absl::MaxSplits('/', 1));
  absl::string_view host = parts.first;
  if (const size_t at = host.rfind('@'); at != absl::string_view::npos) {
    if (!read_user(host.substr(0, at), &address.server)) return wrong;
    host.remove_prefix(at + 1);
  }
  if (!read_host(host, &address.server) || !read_path(parts.second, &address)) return wrong;
  return address;
}

std::string RemoteStore::name(absl::string_view kind, absl::string_view of) const {
  return absl::StrCat(address_.prefix, ":", kind, of.empty() ? "" : ":", of);
}

struct RemoteStore::State {
  const std::string token = random_token();  // tells this process's leases from those of others
  std::timed_mutex mutex;
  std::optional<Redis> connection;  // under mutex, like everything below
  NameLookup names;
  int failures = 0;  // consecutive
  Clock::time_point closed_until;
};

RemoteStore::RemoteStore(RemoteAddress address, Logger logger, double lease_seconds)
    : address_(std::move(address)),
      logger_(std::move(logger)),
      lease_seconds_(lease_seconds),
      state_(std::make_unique<PerProcess<State>>()) {}

RemoteStore::~RemoteStore() = default;

absl::StatusOr<RedisReply> RemoteStore::command_locked(State& mine,
                                                       const std::vector<absl::string_view>& words,
                                                       RedisKinds expected, size_t most) {
  double seconds = kCommandSeconds;
  if (mine.connection.has_value()) {
    const Clock::time_point begin = Clock::now();
    absl::StatusOr<RedisReply> reply = mine.connection->command(words, expected, seconds, most);
    // The server may have closed an idle connection. Then try once more on a new one, in the time that is
    // left.
    seconds -= std::chrono::duration<double>(Clock::now() - begin).count();
    if (!absl::IsUnavailable(reply.status()) || seconds <= 0) return reply;
    mine.connection.reset();
  }
  LATHE_ASSIGN_OR_RETURN(mine.connection, Redis::connect(address_.server, kConnectSeconds, &mine.names));
  return mine.connection->command(words, expected, seconds, most);
}

absl::StatusOr<RedisReply> RemoteStore::command(const std::vector<absl::string_view>& words,
                                                RedisKinds expected, size_t most) {
  absl::StatusOr<RedisReply> reply = absl::UnavailableError("the remote store is paused after a failure");
  double pause = 0;
  int failures_before = 0;
  State& mine = state_->get();
  {
    const std::unique_lock<std::timed_mutex> lock(mine.mutex, std::chrono::duration<double>(kQueueSeconds));
    if (!lock.owns_lock()) return absl::UnavailableError("the remote store is busy with other threads");
    const Clock::time_point begin = Clock::now();
    if (begin < mine.closed_until) return reply;
    reply = command_locked(mine, words, expected, most);
    failures_before = mine.failures;
    // If the server refuses a write (OOM, READONLY), reads may still work, so that is no reason to pause.
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

// Called without the lock, because the log callback belongs to the host. Only the first of consecutive
// failures is a warning.
void RemoteStore::report(const absl::Status& status, int failures_before, double pause) {
  const std::string who =
      absl::StrCat("cache: remote store ", address_.server.host, ":", address_.server.port);
  if (status.ok() && pause == 0) {
    if (failures_before > 0) logger_.log(LogLevel::kInfo, absl::StrCat(who, " is back"));
  } else if (pause > 0) {
    logger_.log(
        failures_before == 0 ? LogLevel::kWarning : LogLevel::kInfo,
        absl::StrCat(who, ": ", status.ok() ? "slow" : status.message(), "; not used for ", pause, " s"));
  } else {
    logger_.log(refused_write_.exchange(true) ? LogLevel::kInfo : LogLevel::kWarning,
                absl::StrCat(who, " refuses a write: ", status.message()));
  }
}

absl::StatusOr<std::string> RemoteStore::get(const Key& key, EntryKind kind) {
  LATHE_ASSIGN_OR_RETURN(const std::string bytes, read(name(name_of(kind), key.fingerprint), kMostBytes));
  LATHE_ASSIGN_OR_RETURN(const EntryView view, parse_entry(bytes));
  if (view.key_text != key.text) return absl::DataLossError("it holds another key");
  return std::string(view.payload);
}

absl::Status RemoteStore::put(const Key& key, absl::string_view payload, EntryKind kind) {
  const std::string whole_name = name(name_of(kind), key.fingerprint);
  return write({"SET", whole_name, make_entry(key.text, payload)}, Kind::kStatus);
}

absl::StatusOr<std::string> RemoteStore::get_text(absl::string_view text_name, size_t most) {
  return read(name(text_name, ""), most);
}
absl::Status RemoteStore::put_text(absl::string_view text_name, absl::string_view text) {
  return write({"SET", name(text_name, ""), text}, Kind::kStatus);
}
absl::Status RemoteStore::append_text(absl::string_view text_name, absl::string_view text) {
  return write({"APPEND", name(text_name, ""), text}, Kind::kInteger);
}

absl::StatusOr<std::string> RemoteStore::read(const std::string& whole_name, size_t most) {
  LATHE_ASSIGN_OR_RETURN(RedisReply reply, command({"GET", whole_name}, {Kind::kString, Kind::kNil}, most));
  if (reply.kind == Kind::kNil) return absl::NotFoundError("the remote store has no entry");
  return std::move(reply.text);
}

absl::Status RemoteStore::write(const std::vector<absl::string_view>& words, Kind expected) {
  return command(words, {expected}, kMostReply).status();
}

std::string RemoteStore::lease_name(const Key& key, Urgency urgency) const {
  return name(urgency == Urgency::kNow ? "lease1" : "idle1", key.fingerprint);
}

std::string RemoteStore::lease_milliseconds() const {
  return absl::StrCat(std::max<int64_t>(1, static_cast<int64_t>(lease_seconds_ * 1000)));
}

absl::Status RemoteStore::take_lease(const Key& key, Urgency urgency) {
  LATHE_ASSIGN_OR_RETURN(
      const RedisReply reply,
      command({"SET", lease_name(key, urgency), state_->get().token, "NX", "PX", lease_milliseconds()},
              {Kind::kStatus, Kind::kNil}, kMostReply));
  if (reply.kind == Kind::kStatus) return absl::OkStatus();
  // If a reply was lost with its connection, the command was sent twice, and the lease may be our own.
  const absl::StatusOr<std::string> holder = read(lease_name(key, urgency), kMostReply);
  if (holder.ok() && *holder == state_->get().token) return absl::OkStatus();
  return absl::AlreadyExistsError("another process has the lease");
}

// The next two functions change a lease only if it is still ours. If memory is short or a log callback
// throws, the lease simply expires.
void RemoteStore::renew_lease(const Key& key, Urgency urgency) noexcept {
  static constexpr absl::string_view kScript =
      "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) "
      "else return 0 end";
  try {
    (void)command({"EVAL", kScript, "1", lease_name(key, urgency), state_->get().token, lease_milliseconds()},
                  {Kind::kInteger}, kMostReply);
  } catch (...) {
  }
}

void RemoteStore::give_back_lease(const Key& key, Urgency urgency) noexcept {
  static constexpr absl::string_view kScript =
      "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
  try {
    (void)command({"EVAL", kScript, "1", lease_name(key, urgency), state_->get().token}, {Kind::kInteger},
                  kMostReply);
  } catch (...) {
  }
}

bool RemoteStore::is_leased(const Key& key, Urgency urgency) {
  const absl::StatusOr<RedisReply> reply =
      command({"PTTL", lease_name(key, urgency)}, {Kind::kInteger}, kMostReply);
  return reply.ok() && reply->integer > 0;
}

// If no thread can be started to renew the lease, it expires and another process may compile, too.
RemoteLease::RemoteLease(RemoteStore* store, const Key& key, Urgency urgency)
    : store_(store), key_(key), urgency_(urgency) {
  thread_.start([this] { renew(); });
}

RemoteLease::~RemoteLease() {
  thread_.end();
  store_->give_back_lease(key_, urgency_);
}

void RemoteLease::renew() noexcept {
  const std::chrono::duration<double> pause(store_->lease_seconds() / 3);
  std::unique_lock<std::mutex> lock(thread_.mutex);
  while (!thread_.changed.wait_for(lock, pause, [this] { return thread_.stops; })) {
    lock.unlock();
    store_->renew_lease(key_, urgency_);
    lock.lock();
  }
}

}  // namespace lathe
