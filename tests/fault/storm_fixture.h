// Starts many processes at once on one empty store and counts what they compile.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <random>

#include "store_fixture.h"

namespace lathe::fault {

class StormFixture : public StoreFixture {
 protected:
  static constexpr int kProcesses = 16, kKeys = 64;

  static pid_t start(const std::function<bool()>& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body() ? 0 : 1);
    return child;
  }
  static void expect_success(const std::vector<pid_t>& children) {
    for (pid_t child : children) {
      int status = -1;
      waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
  }
  // Appends one byte per compile; all processes share the file.
  Artifact compile(const Key& k) const {
    const int file = open((scratch_ + "/compiles").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (write(file, "x", 1) != 1) abort();
    close(file);
    usleep(2000);
    return artifact(k);
  }
  size_t compiles() const { return read_file(scratch_ + "/compiles").size(); }

  bool take_all(ArtifactCache& cache, unsigned seed) {
    std::vector<int> order(kKeys);
    for (int n = 0; n < kKeys; ++n) order[static_cast<size_t>(n)] = n;
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    for (int n : order)
      if (!is_for(cache.get_or_create(key(n), [&] { return compile(key(n)); }), key(n))) return false;
    return warnings_.empty();
  }
  void storm() {
    int gate[2];
    ASSERT_EQ(pipe(gate), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < kProcesses; ++i)
      children.push_back(start([&, i] {
        close(gate[1]);
        char byte;
        (void)!read(gate[0], &byte, 1);  // until the parent closes the gate
        CacheOptions o = options();
        o.lock_timeout_seconds = 60;  // long, because the test expects the locks to work
        return take_all(*make_cache(o), static_cast<unsigned>(i));
      }));
    close(gate[0]);
    close(gate[1]);
    expect_success(children);
    uint64_t rejects = 0;
    EXPECT_TRUE(all_right(kKeys, &rejects));
    EXPECT_EQ(rejects, 0u);
    EXPECT_EQ(make_cache(options())->list()->entries.size(), size_t{kKeys});
  }
};

}  // namespace lathe::fault
