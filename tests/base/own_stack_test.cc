#include "base/own_stack.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <cstring>
#include <new>
#include <thread>

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

TEST(OwnStack, WhatIsThrownComesOut) {
  EXPECT_THROW((void)run_on_own_stack([] { throw std::bad_alloc(); }), std::bad_alloc);
}

}  // namespace
}  // namespace lathe
