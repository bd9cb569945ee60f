// Like storm_test.cc, without file locks and with locks that other machines do not see.
#include <gtest/gtest.h>

#include <cstdio>

#include "interpose.h"
#include "storm_fixture.h"

namespace lathe::fault {
namespace {

class LocklessStormTest : public StormFixture {};

TEST_F(LocklessStormTest, EveryProcessGetsEveryKernel) {
  for (const Locks locks : {Locks::kNone, Locks::kOwn}) {
    std::filesystem::remove_all(directory_);
    std::filesystem::remove(scratch_ + "/compiles");
    set_locks(locks);
    storm();
    set_locks(Locks::kReal);
    std::printf("%d processes, %d keys, %s: %zu compiles, 0 failures\n", kProcesses, kKeys,
                locks == Locks::kNone ? "no locks" : "locks that others do not see", compiles());
    EXPECT_GE(compiles(), size_t{kKeys});
  }
}

}  // namespace
}  // namespace lathe::fault
