// Sends every type of reply to every command of the remote store. An unexpected type must be named in the
// error and never be mistaken for another one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "remote_fixture.h"

namespace lathe {
namespace {

using testing::HasSubstr;
using testing::Not;

// One reply of each type in the protocol's reference (RESP2 and RESP3).
struct Reply {
  const char* type;
  const char* bytes;
};
constexpr Reply kReplies[] = {{"a string", "$1\r\nx\r\n"},
                              {"nil", "$-1\r\n"},
                              {"a status", "+OK\r\n"},
                              {"an integer", ":1\r\n"},
                              {"an array", "*1\r\n$1\r\nx\r\n"},
                              {"an array", "*0\r\n"},
                              {"an array", "*-1\r\n"},
                              {"an array", "*"},
                              {"a map", "%1\r\n+a\r\n+b\r\n"},
                              {"a set", "~1\r\n+a\r\n"},
                              {"a push message", ">2\r\n+a\r\n+b\r\n"},
                              {"a double", ",1.5\r\n"},
                              {"a boolean", "#t\r\n"},
                              {"a big number", "(123456789012345678901234567890\r\n"},
                              {"a verbatim string", "=5\r\ntxt:x\r\n"},
                              {"RESP3's null", "_\r\n"},
                              {"a bulk error", "!5\r\nERR x\r\n"},
                              {"attributes", "|1\r\n+a\r\n+b\r\n"}};

// The commands of the store, and the replies that the Redis reference gives for them.
struct Question {
  const char* verb;
  std::set<std::string> types;
  void (*ask)(RemoteStore& store, const Key& key);
  const char* secret = "";
  const char* path = "/test";
};
void look(RemoteStore& store, const Key&) { (void)store.get_text("name", 1 << 10); }
std::vector<Question> questions() {
  return {
      {"AUTH", {"a status"}, look, ":geheim@"},
      {"SELECT", {"a status"}, look, "", "/3/test"},
      {"GET", {"a string", "nil"}, look},
      {"GET", {"a string", "nil"}, [](RemoteStore& store, const Key& key) { (void)store.get(key); }},
      {"SET", {"a status"}, [](RemoteStore& store, const Key& key) { (void)store.put(key, "payload"); }},
      {"SET", {"a status"}, [](RemoteStore& store, const Key&) { (void)store.put_text("name", "text"); }},
      {"SET",
       {"a status", "nil"},
       [](RemoteStore& store, const Key& key) { (void)store.take_lease(key, Urgency::kNow); }},
      {"APPEND",
       {"an integer"},
       [](RemoteStore& store, const Key&) { (void)store.append_text("name", "text"); }},
      {"EVAL",
       {"an integer"},
       [](RemoteStore& store, const Key& key) { store.renew_lease(key, Urgency::kNow); }},
      {"EVAL",
       {"an integer"},
       [](RemoteStore& store, const Key& key) { store.give_back_lease(key, Urgency::kNow); }},
      {"PTTL",
       {"an integer"},
       [](RemoteStore& store, const Key& key) { (void)store.is_leased(key, Urgency::kNow); }},
  };
}

class RedisReplyTest : public RemoteTest {
 protected:
  // Returns the log messages when a server gives this answer to every command.
  std::string said_of(const Question& question, const std::string& answer) {
    const LyingServer server([&](int client) {
      char command[4096];
      do say(client, answer);
      while (recv(client, command, sizeof(command), 0) > 0);
    });
    std::string url = server.url() + question.path;
    url.insert(url.find("://") + 3, question.secret);
    std::string said;
    std::mutex mutex;
    const Logger logger(LogLevel::kDebug, [&](LogLevel, const std::string& message) {
      const std::lock_guard<std::mutex> lock(mutex);
      said += message + "\n";
    });
    RemoteStore store(parse_remote(url).value(), logger);
    question.ask(store, key(1));
    return said;
  }
};

TEST_F(RedisReplyTest, UnexpectedTypeIsNamedInTheError) {
  for (const Question& question : questions()) {
    for (const Reply& reply : kReplies) {
      SCOPED_TRACE(std::string(question.verb) + " answered with " + reply.bytes);
      const std::string said = said_of(question, reply.bytes);
      EXPECT_THAT(said, Not(HasSubstr("emory")));
      EXPECT_THAT(said, Not(HasSubstr("geheim")));
      const std::string answers = std::string("the server answers ") + question.verb + " with ";
      if (question.types.count(reply.type) != 0) {
        EXPECT_THAT(said, Not(HasSubstr(answers)));
        continue;
      }
      EXPECT_THAT(said, HasSubstr(answers + reply.type + ", not with "));
      for (const std::string& right : question.types) EXPECT_THAT(said, HasSubstr(right));
      EXPECT_THAT(said, HasSubstr("not used for 5 s"));
    }
  }
}

// Error replies are quoted, except where they could contain the password.
TEST_F(RedisReplyTest, ServerErrorIsQuotedExceptAfterLogin) {
  for (const Question& question : questions()) {
    SCOPED_TRACE(question.verb);
    const std::string said = said_of(question, "-ERR of its own geheim\r\n");
    if (*question.secret == 0)
      EXPECT_THAT(said, HasSubstr("ERR of its own"));
    else
      EXPECT_THAT(said,
                  testing::AllOf(HasSubstr("refuses the user or the password"), Not(HasSubstr("geheim"))));
  }
}

TEST_F(RedisReplyTest, MalformedReplyIsQuoted) {
  for (const Question& question : questions()) {
    SCOPED_TRACE(question.verb);
    const std::string no_reply =
        std::string("the server answers ") + question.verb + " with something that is not a Redis reply: ";
    EXPECT_THAT(said_of(question, "HTTP/1.1 400 Bad Request\r\n\r\n"),
                testing::AllOf(HasSubstr(no_reply), HasSubstr("got \"H\"")));
    EXPECT_THAT(said_of(question, ":no number\r\n"), HasSubstr(no_reply));
    EXPECT_THAT(said_of(question, "+OK\r\n+OK\r\n"), HasSubstr(" with more than one reply"));
  }
}

}  // namespace
}  // namespace lathe
