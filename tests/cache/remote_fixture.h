// A redis-server on loopback, fake servers that misbehave, and caches that use either.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "cache/remote_store.h"
#include "cache_fixture.h"

namespace lathe {

// A socket that listens on a free port of loopback.
struct Listener {
  Listener() : file(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (bind(file, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(file, 16) != 0 ||
        getsockname(file, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      abort();
    port = ntohs(address.sin_port);
  }
  ~Listener() { close(file); }
  std::string url() const { return "redis://127.0.0.1:" + std::to_string(port); }
  const int file;
  int port = 0;
};

// Sends `answer` to each connection's first command, then waits until the client closes.
class LyingServer {
 public:
  explicit LyingServer(std::function<void(int)> answer)
      : thread_([this, answer = std::move(answer)] {
          for (;;) {
            const int client = accept(listener_.file, nullptr, nullptr);
            if (client < 0) return;
            char command[4096];
            if (recv(client, command, sizeof(command), 0) > 0) {
              ++commands;
              answer(client);
              while (recv(client, command, sizeof(command), 0) > 0) ++commands;
            }
            close(client);
          }
        }) {}
  ~LyingServer() {
    shutdown(listener_.file, SHUT_RDWR);
    thread_.join();
  }
  std::string url() const { return listener_.url(); }
  std::atomic<int> commands{0};

 private:
  Listener listener_;
  std::thread thread_;
};

inline void say(int client, const std::string& text) {
  (void)!send(client, text.data(), text.size(), MSG_NOSIGNAL);
}
inline std::string bulk(const std::string& bytes) {
  return "$" + std::to_string(bytes.size()) + "\r\n" + bytes + "\r\n";
}

class RemoteTest : public CacheFixture {
 protected:
  template <typename F>
  static double seconds_of(F&& calls) {
    const auto before = std::chrono::steady_clock::now();
    calls();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
  }
  // Time limit for 20 calls that may wait `seconds` for a server once and take `alone` seconds without one. Twenty waits
  // take longer. The margin is for a slow disk or a busy machine.
  static double granted(double seconds, double alone) { return 10 * seconds + 4 * alone; }

  void SetUp() override {
    CacheFixture::SetUp();
    if (absl::IsUnimplemented(Redis::connect({"127.0.0.1", "1"}, 0.1, &names_).status()))
      GTEST_SKIP() << "this build has no hiredis";
  }
  void TearDown() override {
    if (server_ > 0) {
      kill(server_, SIGKILL);
      waitpid(server_, nullptr, 0);
    }
    CacheFixture::TearDown();
  }
  // Returns false if redis-server is not installed; the test must then be skipped.
  bool start_redis(const std::string& password = "") {
    password_ = password;
    {
      const Listener free;
      port_ = std::to_string(free.port);
    }
    std::vector<std::string> words = {"redis-server", "--port", port_,   "--bind", "127.0.0.1",
                                      "--save",       "",       "--dir", scratch_};
    if (!password.empty()) words.insert(words.end(), {"--requirepass", password});
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    const int error = posix_spawnp(&server_, "redis-server", &files, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    if (error != 0) {
      server_ = 0;
      return false;
    }
    for (int i = 0; i < 1000; ++i, usleep(10000))
      if (ask({"PING"}).ok()) return true;
    ADD_FAILURE() << "redis-server does not answer";
    return true;
  }
  absl::StatusOr<RedisReply> ask(const std::vector<absl::string_view>& words) {
    absl::StatusOr<Redis> redis = Redis::connect({"127.0.0.1", port_, "", password_, database_}, 1, &names_);
    if (!redis.ok()) return redis.status();
    using Kind = RedisReply::Kind;
    return redis->command(words, {Kind::kNil, Kind::kString, Kind::kStatus, Kind::kInteger}, 5, 1 << 20);
  }
  std::string url(const std::string& secret = "") const {
    return "redis://" + secret + "127.0.0.1:" + port_ + "/test";
  }
  // A cache with its own directory, like another machine.
  std::unique_ptr<ArtifactCache> machine(const std::string& name, const std::string& remote) {
    CacheOptions o = options_for(scratch_ + "/" + name);
    o.remote = remote;
    return make_cache(o);
  }
  bool serves(ArtifactCache& cache, const Key& k, CacheOutcome outcome) {
    const auto result = cache.get_or_create(k, [&] { return artifact(k); });
    EXPECT_EQ(name_of(result->outcome), name_of(outcome));
    return is_for(result, k) && result->outcome == outcome;
  }
  std::string entry_name(const Key& k) const { return "test:entry1:" + k.fingerprint; }

  NameLookup names_;
  pid_t server_ = 0;
  std::string port_, password_;
  uint32_t database_ = 0;
};
#define NEEDS_REDIS() \
  if (!start_redis()) GTEST_SKIP() << "redis-server is not installed"

}  // namespace lathe
