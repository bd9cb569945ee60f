#include "base/own_stack.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <future>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../system_rules.h"

namespace lathe {
namespace {

// Uses `bytes` bytes of stack.
[[gnu::noinline]] int use(size_t bytes) {
  char block[4096];
  std::memset(block, static_cast<int>(bytes & 0xff), sizeof block);
  asm volatile("" ::"r"(block) : "memory");
  return bytes <= sizeof block ? block[0] : use(bytes - sizeof block) + block[1];
}

// A thread with a stack of 32 KiB.
class SmallThread {
 public:
  explicit SmallThread(std::function<void()> work) : work_(std::move(work)) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 32 << 10);
    const auto run = [](void* self) -> void* {
      static_cast<SmallThread*>(self)->work_();
      return nullptr;
    };
    EXPECT_EQ(pthread_create(&thread_, &attributes, run, this), 0);
    pthread_attr_destroy(&attributes);
  }
  void join() { pthread_join(thread_, nullptr); }

 private:
  const std::function<void()> work_;
  pthread_t thread_;
};

TEST(OwnStack, HasMoreStackThanASmallThread) {
  bool done = false;
  SmallThread thread([&] { done = run_on_own_stack([] { use(6 << 20); }).ok(); });
  thread.join();
  EXPECT_TRUE(done);
}

TEST(OwnStack, RunsOnAnotherThreadWithSignalsBlockedAndWaits) {
  std::thread::id there;
  sigset_t blocked;
  ASSERT_TRUE(run_on_own_stack([&] {
                there = std::this_thread::get_id();
                pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
              }).ok());
  EXPECT_NE(there, std::this_thread::get_id());
  EXPECT_NE(there, std::thread::id());
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 1);
}

// Where the work ran: "here" or "elsewhere"; "refused" if it did not run.
std::string place_of_work() {
  std::thread::id place;
  const absl::Status status = run_on_own_stack([&] { place = std::this_thread::get_id(); });
  if (!status.ok()) return absl::IsResourceExhausted(status) ? "refused" : status.ToString();
  return place == std::this_thread::get_id() ? "here" : "elsewhere";
}

// Leaves no address space for a stack of 8 MiB.
bool limit_address_space() {
  long pages = 0;
  std::FILE* statm = std::fopen("/proc/self/statm", "r");
  if (statm == nullptr) return false;
  const bool read = std::fscanf(statm, "%ld", &pages) == 1;
  std::fclose(statm);
  const rlim_t most = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (2 << 20);
  const rlimit limit = {most, most};
  return read && setrlimit(RLIMIT_AS, &limit) == 0;
}

// If there is no memory for another stack, the work runs on a large enough caller's stack and is refused on a
// small one.
TEST(OwnStack, WithoutAThreadRunsOnTheCallersStackOnlyIfItIsLarge) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "a sanitizer's shadow memory takes more than any limit";
#endif
#endif
  const std::string answer = in_child([]() -> std::string {
    std::promise<void> limited, end;
    const std::shared_future<void> ended = end.get_future().share();
    // These threads use up the stacks that the C library keeps from earlier threads.
    std::vector<std::thread> holders;
    for (int i = 0; i < 8; ++i) holders.emplace_back([ended] { ended.wait(); });
    std::string on_small;
    SmallThread small([&] {
      limited.get_future().wait();
      on_small = place_of_work();
    });
    if (!limit_address_space()) return "no limit";
    const std::string on_large = place_of_work();
    limited.set_value();
    small.join();
    end.set_value();
    for (std::thread& holder : holders) holder.join();
    return on_large + ", " + on_small;
  });
  EXPECT_EQ(answer, "here, refused");
}

TEST(OwnStack, RethrowsExceptions) {
  EXPECT_THROW((void)run_on_own_stack([] { throw std::bad_alloc(); }), std::bad_alloc);
}

}  // namespace
}  // namespace lathe
