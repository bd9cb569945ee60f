// One connection to a Redis server. Each command has limits on time and on the reply's size, whatever the
// server does.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/file_io.h"
#include "cache/name_lookup.h"
#include "cache/socket_io.h"

namespace lathe {

struct RedisAddress {
  std::string host;
  std::string port = "6379";
  std::string user = "", password = "";  // "": none; a password without a user is the default user's
  uint32_t database = 0;
};

struct RedisReply {
  enum class Kind { kNil, kString, kStatus, kInteger } kind = Kind::kNil;
  std::string text;  // for kString and kStatus
  int64_t integer = 0;
};
// The kinds of reply that a command expects, besides a server error.
using RedisKinds = std::initializer_list<RedisReply::Kind>;

// Not thread-safe. Raises no SIGPIPE.
class Redis {
 public:
  // Connects, logs in and selects the database, within `seconds`, in which `names` also resolves the host.
  // kPermissionDenied: the server refuses the login or the database; the message has no secret.
  // kUnimplemented: this build has no hiredis.
  static absl::StatusOr<Redis> connect(const RedisAddress& address, double seconds, NameLookup* names);

  // Returns a reply of one of the `expected` kinds. kDeadlineExceeded: no reply in time. kUnavailable: the
  // connection is lost. kDataLoss: the reply is malformed, of another kind (which the message names), or
  // longer than `most` bytes. After these errors the connection cannot be used again. kInternal: the server
  // returned an error.
  absl::StatusOr<RedisReply> command(const std::vector<absl::string_view>& words, RedisKinds expected,
                                     double seconds, size_t most);

 private:
  explicit Redis(FileDescriptor socket) : socket_(std::move(socket)) {}
  absl::Status introduce(const RedisAddress& address, Deadline deadline);
  absl::StatusOr<RedisReply> command(const std::vector<absl::string_view>& words, RedisKinds expected,
                                     Deadline deadline, size_t most);
  struct Question {
    absl::string_view verb;
    RedisKinds expected;
  };
  absl::StatusOr<RedisReply> receive(const Question& question, Deadline deadline, size_t most);

  FileDescriptor socket_;
};

}  // namespace lathe
