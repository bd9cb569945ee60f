// The machine stops before each call in turn. Unsynced data is lost completely or in part, but names are
// kept. That is the worst case: a name without its data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "interpose.h"
#include "store_fixture.h"

namespace lathe::fault {
namespace {

using CrashTest = StoreFixture;

TEST_F(CrashTest, NothingUnsyncedIsEverLoaded) {
  constexpr int kKeys = 6;
  int crashes = 0;
  for (const double part : {0.0, 0.5, 0.99}) {
    for (int64_t index = 1;; ++index) {
      std::filesystem::remove_all(directory_);
      for (int n = 0; n < 3; ++n) put(key(n));
      CacheOptions o = options();
      o.cap_bytes = 4 * std::filesystem::file_size(entry_path(key(0))) + 10;
      o.lock_timeout_seconds = 0.01;
      arm({Way::kCrash, 0, index});
      const auto cache = make_cache(o);
      for (int n : {3, 0, 4, 5})
        EXPECT_TRUE(is_for(cache->get_or_create(key(n), [&] { return artifact(key(n)); }), key(n)));
      const bool reached = disarm();
      lose_unsynced(scratch_, part);
      SCOPED_TRACE("before call " + std::to_string(index));
      uint64_t rejects = 0;
      EXPECT_TRUE(all_right(kKeys, &rejects));
      EXPECT_EQ(rejects, 0u) << "an entry was renamed before its data was synced";
      EXPECT_THAT(left_over(50), testing::IsEmpty());
      if (HasFailure() || !reached) break;
      ++crashes;
    }
  }
  std::printf("%d crashes, 0 bad loads\n", crashes);
  EXPECT_GT(crashes, 300);
}

}  // namespace
}  // namespace lathe::fault
