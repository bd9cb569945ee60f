// A store with known contents, and checks of its state after a fault.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "cache/pack.h"
#include "cache_fixture.h"

namespace lathe::fault {

inline bool is_long_form() {
  const char* form = std::getenv("LATHE_FAULT_CAMPAIGN");
  return form != nullptr && std::string(form) == "long";
}

class StoreFixture : public CacheFixture {
 protected:
  void SetUp() override {
    // In memory if possible, because the speed of fsync does not matter here.
    std::string name = std::filesystem::is_directory("/dev/shm") ? "/dev/shm/lathe_fault_XXXXXX"
                                                                 : testing::TempDir() + "lathe_fault_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    scratch_ = name;
    directory_ = scratch_ + "/cache";
  }

  // Reads every key of [0, keys) with a new cache. Each must give the right artifact or a miss. `rejects` is
  // the number of files that the cache rejected.
  ::testing::AssertionResult all_right(int keys, uint64_t* rejects) {
    const auto cache = make_cache(options());
    for (int n = 0; n < keys; ++n) {
      const auto result = cache->get(key(n));
      if (!is_for(result, key(n)) && !absl::IsNotFound(result.status()))
        return ::testing::AssertionFailure() << "key " << n << ": " << result.status();
    }
    *rejects = cache->statistics().disk_rejects;
    return ::testing::AssertionSuccess();
  }
  // Files that are neither entries, records nor the journal, after one more write has cleaned up.
  std::vector<std::string> left_over(int fresh_key) {
    EXPECT_TRUE(
        make_cache(options())->get_or_create(key(fresh_key), [&] { return artifact(key(fresh_key)); }).ok());
    std::vector<std::string> rest;
    for (const std::string& name : names())
      if (name.size() < 32 || (name.substr(32) != ".lathe" && name.substr(32) != ".record"))
        rest.push_back(name);
    return rest;
  }
};

}  // namespace lathe::fault
