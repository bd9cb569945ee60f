#include "base/signals_blocked.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/idle_thread.h"
#include "base/own_thread.h"

namespace lathe {
namespace {

bool takes_a_signal() {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return sigismember(&blocked, SIGTERM) == 0;
}

TEST(SignalsBlocked, AreInheritedByThreadsStartedMeanwhileOnly) {
  ASSERT_TRUE(takes_a_signal());
  bool taken = true;
  std::thread thread;
  {
    const SignalsBlocked blocked;
    thread = std::thread([&] { taken = takes_a_signal(); });
  }
  thread.join();
  EXPECT_FALSE(taken);
  EXPECT_TRUE(takes_a_signal());
}

TEST(SignalsBlocked, AppliesToLathesOwnThreads) {
  bool by_own = true, by_idle = true;
  OwnThread own;
  ASSERT_TRUE(own.start([&] { by_own = takes_a_signal(); }));
  own.end();
  run_idly([&] { by_idle = takes_a_signal(); });
  EXPECT_FALSE(by_own);
  EXPECT_FALSE(by_idle);
}

}  // namespace
}  // namespace lathe
