// Many processes at once on an empty store, and forks around a cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "storm_fixture.h"

namespace lathe::fault {
namespace {

class StormTest : public StormFixture {};

TEST_F(StormTest, ColdStartCompilesEachKeyOnce) {
  storm();
  std::printf("%d processes, %d keys: %zu compiles\n", kProcesses, kKeys, compiles());
  EXPECT_EQ(compiles(), size_t{kKeys});
  EXPECT_THAT(left_over(kKeys), testing::IsEmpty());
}

// A cache made before the fork serves parent and children; one made after, too.
TEST_F(StormTest, ForksBeforeAndAfterInit) {
  const auto cache = make_cache(options());
  ASSERT_TRUE(is_for(cache->get_or_create(key(0), [&] { return artifact(key(0)); }), key(0)));
  std::vector<pid_t> children;
  for (unsigned i = 0; i < 4; ++i) {
    children.push_back(start([&, i] { return take_all(*cache, i); }));
    children.push_back(start([&, i] { return take_all(*make_cache(options()), i); }));
  }
  EXPECT_TRUE(take_all(*cache, 99));
  expect_success(children);
  uint64_t rejects = 0;
  EXPECT_TRUE(all_right(kKeys, &rejects));
  EXPECT_EQ(rejects, 0u);
}

}  // namespace
}  // namespace lathe::fault
