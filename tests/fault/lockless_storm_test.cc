// As storm_test.cc on a file system that has no locks.
#include <gtest/gtest.h>

#include <cstdio>

#include "interpose.h"
#include "storm_fixture.h"

namespace lathe::fault {
namespace {

class LocklessStormTest : public StormFixture {};

TEST_F(LocklessStormTest, NothingFails) {
  set_locks(false);
  storm();
  set_locks(true);
  std::printf("%d processes, %d keys, no locks: %zu compiles, 0 failures\n", kProcesses, kKeys, compiles());
  EXPECT_GE(compiles(), size_t{kKeys});
}

}  // namespace
}  // namespace lathe::fault
