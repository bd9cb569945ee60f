// The remote store with a real redis-server on loopback and with fake servers that misbehave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "absl/strings/str_split.h"
#include "cache/entry_file.h"
#include "remote_fixture.h"

namespace lathe {
namespace {

using Clock = std::chrono::steady_clock;
using testing::HasSubstr;

TEST(Remote, ParsesAddressesAndRejectsMalformedOnes) {
  const RemoteAddress plain = parse_remote("redis://cache").value();
  EXPECT_EQ(plain.server.host, "cache");
  EXPECT_EQ(plain.server.port, "6379");
  EXPECT_EQ(plain.prefix, "lathe");
  const RemoteAddress whole = parse_remote("redis://[::1]:7000/team/lathe").value();
  EXPECT_EQ(whole.server.host, "::1");
  EXPECT_EQ(whole.server.port, "7000");
  EXPECT_EQ(whole.prefix, "team/lathe");
  for (const char* wrong :
       {"", "cache:6379", "http://cache", "redis://", "redis://:1", "redis://h:", "redis://h:0",
        "redis://h:65536", "redis://h:1x", "redis://[::1", "redis://[::1]1", "redis://u@h", "redis://u:@h",
        "redis://:p@", "redis://:p%4@h", "redis://:p%zz@h", "redis://:p/q@h", "redis://h/99999999999"})
    EXPECT_EQ(parse_remote(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
}

TEST(Remote, ParsesUsersAndDatabases) {
  const RemoteAddress both = parse_remote("redis://me:p%40s%2fs%3A@cache:7000/3/team/lathe").value();
  EXPECT_EQ(both.server.user, "me");
  EXPECT_EQ(both.server.password, "p@s/s:");
  EXPECT_EQ(both.server.host, "cache");
  EXPECT_EQ(both.server.port, "7000");
  EXPECT_EQ(both.server.database, 3u);
  EXPECT_EQ(both.prefix, "team/lathe");
  const RemoteAddress alone = parse_remote("redis://:a:b@[::1]/15").value();
  EXPECT_EQ(alone.server.user, "");
  EXPECT_EQ(alone.server.password, "a:b");
  EXPECT_EQ(alone.server.host, "::1");
  EXPECT_EQ(alone.server.database, 15u);
  EXPECT_EQ(alone.prefix, "lathe");
  EXPECT_EQ(parse_remote("redis://h/a@b").value().prefix, "a@b");
}

TEST(Remote, NoMessageHasThePassword) {
  for (const char* wrong : {"redis://u:geheim@", "redis://:geheim%@h", "http://u:geheim@h",
                            "redis://u:geheim/x@h:1", "rediss://u:geheim@h:1", "u:geheim@h"}) {
    const absl::Status status = parse_remote(wrong).status();
    EXPECT_FALSE(status.ok()) << wrong;
    EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr("geheim"))) << wrong;
  }
  const absl::Status tls = parse_remote("rediss://:geheim@h:1").status();
  EXPECT_EQ(tls.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(tls.message()), HasSubstr("'rediss://***@h:1' asks for TLS"));
}

TEST_F(RemoteTest, AnotherMachineLoadsTheCompiledKernel) {
  NEEDS_REDIS();
  EXPECT_TRUE(serves(*machine("a", url()), key(1), CacheOutcome::kCompiled));
  const auto b = machine("b", url());
  EXPECT_TRUE(serves(*b, key(1), CacheOutcome::kRemoteHit));
  EXPECT_EQ(b->statistics().remote_hits, 1u);
  EXPECT_TRUE(serves(*machine("b", ""), key(1), CacheOutcome::kDiskHit))
      << "it has written the entry to disk";
  const auto got = machine("c", url())->get(key(1));
  EXPECT_TRUE(is_for(got, key(1)));
  EXPECT_TRUE(absl::IsNotFound(machine("c", url())->get(key(2)).status()));
  // The names are digests, the values are entries as on disk, and no lease is left.
  EXPECT_EQ(ask({"GET", entry_name(key(1))})->text, make_entry(key(1).text, serialize(artifact(key(1)))));
  EXPECT_EQ(ask({"DBSIZE"})->integer, 1);
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];
}

TEST_F(RemoteTest, ProcessesWithSeparateDirectoriesCompileEachKeyOnce) {
  NEEDS_REDIS();
  constexpr int kProcesses = 4, kKeys = 8;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    const auto cache = machine("machine" + std::to_string(i), url());
    bool good = true;
    for (int n = 0; n < kKeys; ++n) {
      const Key k = key((n + i) % kKeys);
      good &= is_for(cache->get_or_create(k,
                                          [&] {
                                            const int file = open((scratch_ + "/compiles").c_str(),
                                                                  O_WRONLY | O_CREAT | O_APPEND, 0600);
                                            good &= write(file, "x", 1) == 1;
                                            close(file);
                                            usleep(50000);
                                            return artifact(k);
                                          }),
                     k);
    }
    _exit(good && warnings_.empty() ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const size_t compiles = read_file(scratch_ + "/compiles").size();
  std::printf("%d processes with a directory each, one Redis, %d keys: %zu compiles\n", kProcesses, kKeys,
              compiles);
  EXPECT_EQ(compiles, size_t{kKeys});
}

TEST_F(RemoteTest, ForkedProcessUsesItsOwnConnection) {
  NEEDS_REDIS();
  const auto cache = machine("a", url());
  ASSERT_TRUE(serves(*cache, key(0), CacheOutcome::kCompiled));
  const pid_t child = fork();
  if (child == 0) {
    bool good = true;
    for (int n = 100; n < 150; ++n)
      good &= is_for(cache->get_or_create(key(n), [&] { return artifact(key(n)); }), key(n));
    _exit(good && warnings_.empty() ? 0 : 1);
  }
  for (int n = 200; n < 250; ++n) EXPECT_TRUE(serves(*cache, key(n), CacheOutcome::kCompiled));
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];
}

TEST_F(RemoteTest, WaitsForADeadProcessLeaseUntilTheTimeout) {
  NEEDS_REDIS();
  RemoteStore dead(parse_remote(url()).value(), Logger());
  ASSERT_TRUE(dead.take_lease(key(1), Urgency::kNow).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(
      RemoteStore(parse_remote(url()).value(), Logger()).take_lease(key(1), Urgency::kNow)));
  const int64_t left = ask({"PTTL", "test:lease1:" + key(1).fingerprint})->integer;
  EXPECT_GT(left, 0) << "the lease expires by itself";
  EXPECT_LE(left, kLeaseSeconds * 1000);
  CacheOptions o = options();
  o.remote = url();
  o.lock_timeout_seconds = 0.3;
  const auto before = Clock::now();
  EXPECT_TRUE(serves(*make_cache(o), key(1), CacheOutcome::kCompiled));
  EXPECT_LT(Clock::now() - before, std::chrono::seconds(30));
  EXPECT_TRUE(absl::IsAlreadyExists(
      RemoteStore(parse_remote(url()).value(), Logger()).take_lease(key(1), Urgency::kNow)))
      << "it must not release another process's lease";
  dead.give_back_lease(key(1), Urgency::kNow);
  EXPECT_EQ(ask({"EXISTS", "test:lease1:" + key(1).fingerprint})->integer, 0);
}

TEST_F(RemoteTest, LeaseOfADeadProcessExpires) {
  NEEDS_REDIS();
  const auto before = Clock::now();
  RemoteStore dead(parse_remote(url()).value(), Logger(), 0.5);
  ASSERT_TRUE(dead.take_lease(key(1), Urgency::kNow).ok());
  EXPECT_TRUE(serves(*machine("a", url()), key(1), CacheOutcome::kCompiled));
  const std::chrono::duration<double> took = Clock::now() - before;
  EXPECT_GE(took.count(), 0.3);
  EXPECT_LT(took.count(), 60) << "it must not wait the full lock timeout";
  EXPECT_EQ(ask({"DBSIZE"})->integer, 1) << "only the entry is left";
}

// The compile takes three times as long as a lease, which a busy machine must be able to renew in time.
TEST_F(RemoteTest, LiveProcessKeepsItsLeaseAndOthersWait) {
  NEEDS_REDIS();
  const auto of = [&](const char* name) {
    CacheOptions o = options_for(scratch_ + "/" + name);
    o.remote = url();
    o.lease_seconds = 1;
    return make_cache(o);
  };
  const auto a = of("a"), b = of("b");
  std::promise<void> began;
  std::thread compiles([&] {
    EXPECT_TRUE(is_for(a->get_or_create(key(1),
                                        [&] {
                                          began.set_value();
                                          usleep(3000000);
                                          return artifact(key(1));
                                        }),
                       key(1)));
  });
  began.get_future().wait();
  EXPECT_TRUE(serves(*b, key(1), CacheOutcome::kRemoteHit));
  compiles.join();
  EXPECT_EQ(ask({"DBSIZE"})->integer, 1) << "only the entry is left, no lease";
  EXPECT_THAT(warnings_, testing::IsEmpty());
}

// A server that has no entry and never grants a lease costs one wait.
TEST_F(RemoteTest, ServerThatGrantsNoLeasesCostsOneWait) {
  const LyingServer server([](int client) {
    std::string command(4096, 'G');  // a GET
    const auto is = [&](const char* word) { return command.find(word) != std::string::npos; };
    ssize_t size = 0;
    do {
      const bool is_lease = is("NX");
      say(client, is("PTTL")               ? ":-2\r\n"
                  : is("EVAL")             ? ":0\r\n"
                  : is("SET") && !is_lease ? "+OK\r\n"
                                           : "$-1\r\n");
      command.assign(4096, '\0');
      size = recv(client, command.data(), command.size(), 0);
    } while (size > 0);
  });
  CacheOptions o = options();
  o.remote = server.url();
  o.lease_seconds = 0.5;
  const auto cache = make_cache(o);
  const auto before = Clock::now();
  for (int n = 0; n < 20; ++n) EXPECT_TRUE(serves(*cache, key(n), CacheOutcome::kCompiled));
  const std::chrono::duration<double> took = Clock::now() - before;
  EXPECT_GE(took.count(), 0.5);
  EXPECT_LT(took.count(), 8) << "a wait for each key would take 10 s";
  EXPECT_THAT(warnings_, testing::IsEmpty()) << "it looks like the leases of dead processes";
}

TEST_F(RemoteTest, FailedCompileReleasesTheLease) {
  NEEDS_REDIS();
  const auto failed = machine("a", url())->get_or_create(key(1), []() -> absl::StatusOr<Artifact> {
    return absl::AbortedError("no");
  });
  EXPECT_TRUE(absl::IsAborted(failed.status()));
  EXPECT_EQ(ask({"DBSIZE"})->integer, 0);
}

TEST_F(RemoteTest, WrongOrDamagedEntryIsAMissAndReplaced) {
  NEEDS_REDIS();
  const std::string entry = make_entry(key(1).text, serialize(artifact(key(1))));
  std::vector<std::string> wrong = {"",
                                    "x",
                                    entry + "x",
                                    make_entry(key(2).text, serialize(artifact(key(2)))),
                                    make_entry(key(1).text, "no artifact"),
                                    std::string(1 << 20, 'g')};
  for (size_t size = 1; size < entry.size(); size += 7) wrong.push_back(entry.substr(0, size));
  for (size_t bit = 0; bit < entry.size() * 8; bit += 13) {
    wrong.push_back(entry);
    wrong.back()[bit / 8] = static_cast<char>(wrong.back()[bit / 8] ^ (1 << bit % 8));
  }
  const auto cache = machine("a", url());
  for (const std::string& bytes : wrong) {
    ASSERT_TRUE(ask({"SET", entry_name(key(1)), bytes}).ok());
    EXPECT_TRUE(absl::IsNotFound(cache->get(key(1)).status()));
  }
  EXPECT_EQ(cache->statistics().remote_rejects, wrong.size());
  EXPECT_TRUE(serves(*cache, key(1), CacheOutcome::kCompiled));
  EXPECT_EQ(ask({"GET", entry_name(key(1))})->text, entry);
  // A value of another Redis type.
  ASSERT_TRUE(ask({"DEL", entry_name(key(3))}).ok());
  ASSERT_TRUE(ask({"LPUSH", entry_name(key(3)), "x"}).ok());
  EXPECT_TRUE(serves(*machine("b", url()), key(3), CacheOutcome::kCompiled));
}

// A call that stops does not wait for another machine's compile and takes no lease, but still finds an entry.
TEST_F(RemoteTest, CallThatStopsTakesNoLease) {
  NEEDS_REDIS();
  RemoteStore other(parse_remote(url()).value(), Logger());
  ASSERT_TRUE(other.take_lease(key(1), Urgency::kNow).ok());
  const auto stops = [] { return OnMiss::kStop; };
  const auto never = []() -> absl::StatusOr<Artifact> {
    ADD_FAILURE() << "no compile was expected";
    return artifact(key(1));
  };
  const auto cache = machine("a", url());
  EXPECT_EQ(cache->get_or_create(key(1), never, stops)->outcome, CacheOutcome::kStopped);
  EXPECT_EQ(cache->get_or_create(key(2), never, stops)->outcome, CacheOutcome::kStopped);
  EXPECT_EQ(ask({"DBSIZE"})->integer, 1) << "only the other process's lease";
  ASSERT_TRUE(other.put(key(1), serialize(artifact(key(1)))).ok());
  EXPECT_EQ(cache->get_or_create(key(1), never, stops)->outcome, CacheOutcome::kRemoteHit);
  EXPECT_TRUE(serves(*machine("a", ""), key(1), CacheOutcome::kDiskHit)) << "it was written to disk";
  // A damaged entry is reported once and replaced by a compile.
  ASSERT_TRUE(ask({"SET", entry_name(key(3)), "x"}).ok());
  EXPECT_EQ(cache
                ->get_or_create(
                    key(3), [] { return artifact(key(3)); }, [] { return OnMiss::kCompile; })
                ->outcome,
            CacheOutcome::kCompiled);
  EXPECT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(cache->statistics().remote_rejects, 1u);
}

TEST_F(RemoteTest, ServerThatRefusesWritesIsStillRead) {
  NEEDS_REDIS();
  ASSERT_TRUE(serves(*machine("a", url()), key(1), CacheOutcome::kCompiled));
  ASSERT_TRUE(ask({"CONFIG", "SET", "maxmemory", "1"}).ok());
  const auto cache = machine("b", url());
  EXPECT_TRUE(serves(*cache, key(2), CacheOutcome::kCompiled));
  EXPECT_TRUE(serves(*cache, key(1), CacheOutcome::kRemoteHit));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("refuses a write: OOM"));
}

TEST_F(RemoteTest, LogsInWithPasswordAndUser) {
  if (!start_redis("open sesame")) GTEST_SKIP() << "redis-server is not installed";
  const std::string secret = ":open%20sesame@";
  EXPECT_TRUE(serves(*machine("a", url(secret)), key(1), CacheOutcome::kCompiled));
  EXPECT_TRUE(serves(*machine("b", url(secret)), key(1), CacheOutcome::kRemoteHit));
  EXPECT_TRUE(serves(*machine("c", url("default" + secret)), key(1), CacheOutcome::kRemoteHit))
      << "with the default user's name";
  EXPECT_THAT(warnings_, testing::IsEmpty());

  // A second user with its own rights (Redis 6 and later).
  if (ask({"ACL", "SETUSER", "reader", "on", ">two", "~*", "+get"}).ok()) {
    EXPECT_TRUE(serves(*machine("d", url("reader:two@")), key(1), CacheOutcome::kRemoteHit));
    EXPECT_THAT(warnings_, testing::IsEmpty());
  }
}

TEST_F(RemoteTest, WrongPasswordDisablesTheRemoteStoreWithOneWarning) {
  if (!start_redis("open sesame")) GTEST_SKIP() << "redis-server is not installed";
  EXPECT_TRUE(serves(*machine("a", url(":open%20sesame@")), key(1), CacheOutcome::kCompiled));
  for (const char* secret : {":geheim@", "me:geheim@"}) {
    warnings_.clear();
    const auto cache = machine("b", url(secret));
    EXPECT_TRUE(serves(*cache, key(1), CacheOutcome::kCompiled)) << secret;
    EXPECT_TRUE(serves(*cache, key(2), CacheOutcome::kCompiled)) << secret;
    ASSERT_EQ(warnings_.size(), 1u) << "one warning is expected";
    EXPECT_THAT(warnings_[0], testing::AllOf(HasSubstr("remote store 127.0.0.1:" + port_),
                                             HasSubstr("refuses the user or the password"),
                                             testing::Not(HasSubstr("geheim"))));
    EXPECT_TRUE(cache->clear().ok());
  }
  warnings_.clear();
  EXPECT_TRUE(serves(*machine("c", url()), key(1), CacheOutcome::kCompiled)) << "no password was given";
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("NOAUTH"));
}

// The server's reply to a login must not reach the log, because it could contain the password.
TEST_F(RemoteTest, DoesNotQuoteAServerThatRepeatsThePassword) {
  LyingServer server([](int client) { say(client, "-WRONGPASS geheim\r\n"); });
  std::string address = server.url();
  address.insert(address.find("://") + 3, ":geheim@");
  EXPECT_TRUE(serves(*machine("a", address), key(1), CacheOutcome::kCompiled));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], testing::Not(HasSubstr("geheim")));
}

TEST_F(RemoteTest, DatabasesAreSeparate) {
  NEEDS_REDIS();
  const std::string other = "redis://127.0.0.1:" + port_ + "/3/test";
  EXPECT_TRUE(serves(*machine("a", other), key(1), CacheOutcome::kCompiled));
  EXPECT_TRUE(serves(*machine("b", url()), key(1), CacheOutcome::kCompiled));
  EXPECT_TRUE(serves(*machine("c", other), key(1), CacheOutcome::kRemoteHit));
  database_ = 3;
  EXPECT_EQ(ask({"EXISTS", entry_name(key(1))})->integer, 1);
  warnings_.clear();
  EXPECT_TRUE(serves(*machine("d", "redis://127.0.0.1:" + port_ + "/99"), key(1), CacheOutcome::kCompiled));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("database 99: "));
}

TEST_F(RemoteTest, ReconnectsAfterTheServerClosedTheConnection) {
  NEEDS_REDIS();
  const auto cache = machine("a", url());
  ASSERT_TRUE(serves(*cache, key(1), CacheOutcome::kCompiled));
  (void)ask({"CLIENT", "KILL", "TYPE", "normal"});
  EXPECT_TRUE(serves(*cache, key(2), CacheOutcome::kCompiled));
  EXPECT_EQ(ask({"EXISTS", entry_name(key(2))})->integer, 1);
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];
}

// Whatever the server does, all calls together wait for the time limit once, and one warning has the reason.
TEST_F(RemoteTest, FailingServerCostsTheTimeLimitOnce) {
  const auto never = [](int) {};
  const auto drip = [](int client) {
    for (int i = 0; i < 100; ++i) {
      say(client, i == 0 ? "$1000\r\n" : "x");
      usleep(100000);
      char byte;
      if (recv(client, &byte, 1, MSG_DONTWAIT) == 0) return;
    }
  };
  const std::pair<const char*, std::function<void(int)>> ways[] = {
      {"never answers", never},
      {"drips", drip},
      {"closes", [](int client) { shutdown(client, SHUT_RDWR); }},
      {"speaks another protocol", [](int client) { say(client, "HTTP/1.1 400 Bad Request\r\n\r\n"); }},
      {"sends an array of a billion", [](int client) { say(client, "*1000000000\r\n"); }},
      {"sends nested arrays",
       [](int client) { say(client, "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"); }},
      {"promises a terabyte", [](int client) { say(client, "$1099511627776\r\nabc"); }},
      {"sends a negative length", [](int client) { say(client, "$-5\r\n"); }},
      {"answers twice", [](int client) { say(client, bulk("a") + bulk("b")); }},
      {"wants a password", [](int client) { say(client, "-NOAUTH Authentication required.\r\n"); }},
      {"truncates", [](int client) { say(client, "$100\r\nabc"), shutdown(client, SHUT_RDWR); }},
  };
  const auto calls = [&](ArtifactCache& cache) {
    for (int k = 0; k < 20; ++k) EXPECT_TRUE(serves(cache, key(k), CacheOutcome::kCompiled));
  };
  const double alone = seconds_of([&] { calls(*machine("alone", "")); });
  int n = 0;
  for (const auto& [what, answer] : ways) {
    SCOPED_TRACE(what);
    const LyingServer server(answer);
    warnings_.clear();
    const auto cache = machine("m" + std::to_string(n++), server.url());
    const double took = seconds_of([&] { calls(*cache); });
    EXPECT_LT(took, granted(RemoteStore::kConnectSeconds + RemoteStore::kCommandSeconds, alone));
    ASSERT_EQ(warnings_.size(), 1u);
    EXPECT_THAT(warnings_[0], HasSubstr("not used for 5 s"));
    EXPECT_LE(server.commands.load(), 1);
  }
}

// A command that is repeated on a new connection must not get a new time limit.
TEST_F(RemoteTest, RepeatedCommandKeepsItsTimeLimit) {
  std::atomic<int> connections{0};
  LyingServer server([&](int client) {
    if (++connections > 1) return;  // no answer
    say(client, "$-1\r\n");
    char command[4096];
    if (recv(client, command, sizeof(command), 0) <= 0) return;
    usleep(600000);
    shutdown(client, SHUT_RDWR);
  });
  RemoteStore store(parse_remote(server.url()).value(), Logger());
  EXPECT_TRUE(absl::IsNotFound(store.get(key(1)).status()));
  const double took = seconds_of([&] { EXPECT_TRUE(absl::IsUnavailable(store.get(key(1)).status())); });
  EXPECT_EQ(connections.load(), 2);
  EXPECT_LT(took, RemoteStore::kConnectSeconds + RemoteStore::kCommandSeconds);
}

TEST_F(RemoteTest, LeaseIsTakenAlthoughTheReplyWasLost) {
  std::atomic<int> connections{0};
  std::string token;
  LyingServer server([&](int client) {
    char command[4096];
    const auto next = [&] {
      const ssize_t size = recv(client, command, sizeof(command), 0);
      return std::string(command, size > 0 ? static_cast<size_t>(size) : 0);
    };
    if (++connections == 1) {
      say(client, "$-1\r\n");
      const std::vector<std::string> lines = absl::StrSplit(next(), "\r\n");
      if (lines.size() > 6 && lines[2] == "SET") token = lines[6];
      shutdown(client, SHUT_RDWR);
      return;
    }
    say(client, "$-1\r\n");  // the reply to the repeated SET
    if (!next().empty()) say(client, bulk(token));
  });
  RemoteStore store(parse_remote(server.url()).value(), Logger());
  EXPECT_TRUE(absl::IsNotFound(store.get(key(1)).status()));
  EXPECT_TRUE(store.take_lease(key(1), Urgency::kNow).ok());
  EXPECT_FALSE(token.empty());
  EXPECT_EQ(connections.load(), 2);
}

TEST_F(RemoteTest, EndlessReplyIsCutOff) {
  LyingServer server([](int client) {
    const std::string much(1 << 20, 'x');
    say(client, "$999999999\r\n");
    for (;;)
      if (send(client, much.data(), much.size(), MSG_NOSIGNAL) < 0) return;
  });
  absl::StatusOr<Redis> redis =
      Redis::connect({"127.0.0.1", server.url().substr(server.url().rfind(':') + 1)}, 1, &names_);
  ASSERT_TRUE(redis.ok()) << redis.status();
  const absl::Status status = redis->command({"GET", "x"}, {RedisReply::Kind::kString}, 30, 4 << 20).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  redis = absl::UnavailableError("closed");
}

TEST_F(RemoteTest, UnreachableAddressCostsTheConnectTimeOnce) {
  std::string closed;
  {
    const Listener gone;
    closed = gone.url();
  }
  // Nobody answers on TEST-NET-1. Some networks report that at once, which is fine, too.
  for (const std::string& url : {closed, std::string("redis://192.0.2.1:6379")}) {
    SCOPED_TRACE(url);
    warnings_.clear();
    std::filesystem::remove_all(scratch_ + "/m");
    const auto cache = machine("m", url);
    const auto before = Clock::now();
    for (int k = 0; k < 20; ++k) EXPECT_TRUE(serves(*cache, key(k), CacheOutcome::kCompiled));
    EXPECT_LT(Clock::now() - before, std::chrono::seconds(8)) << "a wait for each key would take 10 s";
    EXPECT_EQ(warnings_.size(), 1u);
  }
}

}  // namespace
}  // namespace lathe
