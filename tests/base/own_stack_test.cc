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

TEST(OwnStack, HasMoreThanASmallThread) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 32 << 10), 0);
  bool done = false;
  pthread_t thread;
  ASSERT_EQ(pthread_create(
                &thread, &attributes,
                [](void* done) -> void* {
                  const absl::Status status = run_on_own_stack([] { use(6 << 20); });
                  *static_cast<bool*>(done) = status.ok();
                  return nullptr;
                },
                &done),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  EXPECT_TRUE(done);
}

TEST(OwnStack, RunsElsewhereWithoutSignalsAndWaits) {
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

// With no memory for another stack, work runs here if this one is large, and is refused if it is not.
TEST(OwnStack, WithoutAThreadRunsWhereThereIsRoomAlone) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "a sanitizer's shadow memory takes more than any limit";
#endif
#endif
  const std::string answer = in_child([]() -> std::string {
    std::string text;
    const auto tell = [&](const char* where) {
      bool ran = false;
      const absl::Status status = run_on_own_stack([&] { ran = true; });
      text += std::string(where) +
              (ran                                 ? ": ran"
               : absl::IsResourceExhausted(status) ? ": refused"
                                                   : ": lost") +
              "; ";
    };
    std::promise<void> limited;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    std::function<void()> later = [&] {
      limited.get_future().wait();
      tell("small");
    };
    pthread_t thread;
    const auto call = [](void* work) -> void* {
      (*static_cast<std::function<void()>*>(work))();
      return nullptr;
    };
    if (pthread_create(&thread, &small, call, &later) != 0) return "no thread";
    long pages = 0;
    std::FILE* statm = std::fopen("/proc/self/statm", "r");
    if (statm == nullptr || std::fscanf(statm, "%ld", &pages) != 1) return "no size";
    std::fclose(statm);
    const rlim_t most = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (2 << 20);
    const rlimit limit = {most, most};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return "no limit";
    tell("large");
    limited.set_value();
    pthread_join(thread, nullptr);
    return text;
  });
  EXPECT_EQ(answer, "large: ran; small: refused; ");
}

TEST(OwnStack, WhatIsThrownComesOut) {
  EXPECT_THROW((void)run_on_own_stack([] { throw std::bad_alloc(); }), std::bad_alloc);
}

}  // namespace
}  // namespace lathe
