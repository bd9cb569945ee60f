// hiredis formats the commands and parses the replies. The socket is our own, because hiredis' socket raises
// SIGPIPE, restarts its timeout for every piece of a reply, and accepts replies of any size.
#include "cache/redis.h"

#include <hiredis/hiredis.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/standard_streams.h"
#include "base/status.h"

namespace lathe {
namespace {

Deadline after(double seconds) {
  return Deadline::clock::now() +
         std::chrono::duration_cast<Deadline::duration>(std::chrono::duration<double>(seconds));
}

absl::Status lost(absl::string_view what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", strerror(error)));
}

FileDescriptor make_socket(int family) {
  const StandardStreamsFilled filled;
  return FileDescriptor(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

absl::StatusOr<FileDescriptor> connect_to(const addrinfo& address, Deadline deadline) {
  FileDescriptor socket = make_socket(address.ai_family);
  if (!socket.valid()) return lost("socket", errno);
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return lost("connect", errno);
    LATHE_RETURN_IF_ERROR(wait_for(socket.get(), POLLOUT, deadline));
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) return lost("connect", error);
  }
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return socket;
}

// RESP types, by first byte, that no command here expects. Such a reply is rejected before it is parsed, so
// that a false element count cannot cause a large allocation.
constexpr std::pair<char, absl::string_view> kUnreadTypes[] = {
    {'*', "an array"},     {'%', "a map"},        {'~', "a set"},        {'>', "a push message"},
    {',', "a double"},     {'#', "a boolean"},    {'(', "a big number"}, {'=', "a verbatim string"},
    {'_', "RESP3's null"}, {'!', "a bulk error"}, {'|', "attributes"}};

// Returns "" if replies of this type are parsed.
absl::string_view unread_type(char first) {
  for (const auto& [byte, name] : kUnreadTypes)
    if (byte == first) return name;
  return "";
}

absl::string_view name_of(RedisReply::Kind kind) {
  switch (kind) {
    case RedisReply::Kind::kNil: return "nil";
    case RedisReply::Kind::kString: return "a string";
    case RedisReply::Kind::kStatus: return "a status";
    case RedisReply::Kind::kInteger: return "an integer";
  }
  return "another kind";
}

absl::Status unexpected(absl::string_view verb, RedisKinds expected, absl::string_view got) {
  const auto name = [](std::string* out, RedisReply::Kind kind) { absl::StrAppend(out, name_of(kind)); };
  return absl::DataLossError(absl::StrCat("the server answers ", verb, " with ", got, ", not with ",
                                          absl::StrJoin(expected, " or ", name)));
}

absl::Status no_memory() { return absl::ResourceExhaustedError("out of memory for a reply"); }

// The reader's callbacks fill this. A reply is an error or one of the kinds of RedisReply.
struct Received {
  RedisReply reply;
  bool is_error = false, no_memory = false;
};
Received* received_of(const redisReadTask* task) { return static_cast<Received*>(task->privdata); }
void* take_text(const redisReadTask* task, char* text, size_t size) {
  Received* out = received_of(task);
  try {
    out->reply.text.assign(text, size);
  } catch (const std::exception&) {
    out->no_memory = true;  // no exception may pass through hiredis, which is C
  }
  out->is_error = task->type == REDIS_REPLY_ERROR;
  out->reply.kind = task->type == REDIS_REPLY_STATUS ? RedisReply::Kind::kStatus : RedisReply::Kind::kString;
  return out;
}
void* take_integer(const redisReadTask* task, long long value) {
  Received* out = received_of(task);
  out->reply.kind = RedisReply::Kind::kInteger;
  out->reply.integer = value;
  return out;
}
void* take_nil(const redisReadTask* task) {
  Received* out = received_of(task);
  out->reply.kind = RedisReply::Kind::kNil;
  return out;
}

// Assigned by name, because hiredis 1 has more fields. Those are for types that are rejected before parsing.
redisReplyObjectFunctions reader_functions() {
  redisReplyObjectFunctions functions = {};
  functions.createString = take_text;
  functions.createInteger = take_integer;
  functions.createNil = take_nil;
  functions.freeObject = [](void*) {};
  return functions;
}

struct FreeReader {
  void operator()(redisReader* reader) const { redisReaderFree(reader); }
};

}  // namespace

absl::StatusOr<Redis> Redis::connect(const RedisAddress& address, double seconds, NameLookup* names) {
  const Deadline deadline = after(seconds);
  LATHE_ASSIGN_OR_RETURN(const NameLookup::Addresses found,
                         names->find(address.host, address.port, deadline));
  absl::Status status = absl::UnavailableError("the name has no address");
  for (const addrinfo* a = found.get(); a != nullptr; a = a->ai_next) {
    absl::StatusOr<FileDescriptor> socket = connect_to(*a, deadline);
    if (socket.ok()) {
      Redis redis(*std::move(socket));
      LATHE_RETURN_IF_ERROR(redis.introduce(address, deadline));
      return redis;
    }
    status = socket.status();
  }
  return status;
}

absl::Status Redis::introduce(const RedisAddress& address, Deadline deadline) {
  constexpr size_t kMost = 4096;
  if (!address.password.empty()) {
    std::vector<absl::string_view> words = {"AUTH"};
    if (!address.user.empty()) words.push_back(address.user);
    words.push_back(address.password);
    const absl::Status status = command(words, {RedisReply::Kind::kStatus}, deadline, kMost).status();
    // Do not quote the server: a malicious one could echo the password, which would then be logged.
    if (absl::IsInternal(status))
      return absl::PermissionDeniedError("the server refuses the user or the password of the store's URL");
    LATHE_RETURN_IF_ERROR(status);
  }
  if (address.database == 0) return absl::OkStatus();
  const absl::Status status =
      command({"SELECT", absl::StrCat(address.database)}, {RedisReply::Kind::kStatus}, deadline, kMost)
          .status();
  if (absl::IsInternal(status))
    return absl::PermissionDeniedError(absl::StrCat("database ", address.database, ": ", status.message()));
  return status;
}

absl::StatusOr<RedisReply> Redis::receive(const Question& question, Deadline deadline, size_t most) {
  static redisReplyObjectFunctions functions = reader_functions();
  const std::unique_ptr<redisReader, FreeReader> reader(redisReaderCreateWithFunctions(&functions));
  if (reader == nullptr) return no_memory();
  Received received;
  reader->privdata = &received;  // hiredis' macro would cast the pointer to an int
  size_t total = 0;
  std::vector<char> piece(16384);  // not on the stack: the caller's may be small
  for (;;) {
    LATHE_ASSIGN_OR_RETURN(const size_t got,
                           receive_some(socket_.get(), piece.data(), piece.size(), deadline));
    if (const absl::string_view type = total == 0 ? unread_type(piece[0]) : ""; !type.empty())
      return unexpected(question.verb, question.expected, type);
    total += got;
    if (total > most) return absl::DataLossError(absl::StrCat("a reply of more than ", most, " bytes"));
    void* complete = nullptr;
    if (redisReaderFeed(reader.get(), piece.data(), got) != REDIS_OK ||
        redisReaderGetReply(reader.get(), &complete) != REDIS_OK) {
      if (reader->err == REDIS_ERR_OOM) return no_memory();
      return absl::DataLossError(absl::StrCat("the server answers ", question.verb,
                                              " with something that is not a Redis reply: ", reader->errstr));
    }
    if (received.no_memory) return no_memory();
    if (complete == nullptr) continue;
    // Bytes after the reply belong to no command.
    if (reader->pos != reader->len)
      return absl::DataLossError(
          absl::StrCat("the server answers ", question.verb, " with more than one reply"));
    if (received.is_error) return absl::InternalError(received.reply.text);
    if (!absl::c_linear_search(question.expected, received.reply.kind))
      return unexpected(question.verb, question.expected, name_of(received.reply.kind));
    return std::move(received.reply);
  }
}

absl::StatusOr<RedisReply> Redis::command(const std::vector<absl::string_view>& words, RedisKinds expected,
                                          double seconds, size_t most) {
  return command(words, expected, after(seconds), most);
}

absl::StatusOr<RedisReply> Redis::command(const std::vector<absl::string_view>& words, RedisKinds expected,
                                          Deadline deadline, size_t most) {
  std::vector<const char*> texts;
  std::vector<size_t> sizes;
  for (const absl::string_view word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  char* formatted = nullptr;
  const auto size =  // int, or long long in hiredis 1
      redisFormatCommandArgv(&formatted, static_cast<int>(words.size()), texts.data(), sizes.data());
  if (size < 0) return absl::ResourceExhaustedError("out of memory for a command");
  const std::unique_ptr<char, decltype(&redisFreeCommand)> command(formatted, redisFreeCommand);
  LATHE_RETURN_IF_ERROR(
      send_all(socket_.get(), absl::string_view(formatted, static_cast<size_t>(size)), deadline));
  return receive({words[0], expected}, deadline, most);
}

}  // namespace lathe
