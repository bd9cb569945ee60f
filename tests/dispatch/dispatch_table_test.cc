#include "dispatch/dispatch_table.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace lathe {
namespace {

DispatchKey key(int64_t n, int32_t split_k = 0, int32_t candidate = 0) {
  DispatchKey k;
  k.problem.n = n;
  k.split_k = split_k;
  k.candidate = candidate;
  return k;
}

// The table does not dereference kernels.
const LoadedKernel* kernel(int64_t n) { return reinterpret_cast<const LoadedKernel*>(n * 16); }

TEST(DispatchTable, FindsInsertedEntries) {
  DispatchTable table;
  EXPECT_EQ(table.find(key(1)), nullptr);
  const DispatchEntry* entry = table.insert({key(1), kernel(1), 3, false, {}});
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(table.find(key(1)), entry);
  EXPECT_EQ(entry->kernel, kernel(1));
  EXPECT_EQ(entry->wanted_splits, 3);
  EXPECT_EQ(table.find(key(2)), nullptr);
}

TEST(DispatchTable, OverridesHaveTheirOwnEntries) {
  DispatchTable table;
  table.insert({key(1), kernel(1), 1, false, {}});
  EXPECT_EQ(table.find(key(1, 7)), nullptr);
  EXPECT_EQ(table.find(key(1, 0, 2)), nullptr);
  table.insert({key(1, 7), kernel(2), 7, false, {}});
  EXPECT_EQ(table.find(key(1, 7))->kernel, kernel(2));
  EXPECT_EQ(table.find(key(1))->kernel, kernel(1));
  EXPECT_EQ(table.find(key(1, 0, 7)), nullptr);
}

TEST(DispatchTable, FirstInsertOfAKeyStays) {
  DispatchTable table;
  const DispatchEntry* first = table.insert({key(1), kernel(1), 1, false, {}});
  EXPECT_EQ(table.insert({key(1), kernel(2), 2, false, {}}), first);
  EXPECT_EQ(table.find(key(1))->kernel, kernel(1));
  EXPECT_EQ(table.size(), 1u);
}

TEST(DispatchTable, EveryFieldOfTheKeyMatters) {
  DispatchTable table;
  table.insert({key(4096), kernel(1), 1, false, {}});
  // Flipping any byte gives another key, so there is no padding and no field is ignored.
  for (size_t i = 0; i < sizeof(DispatchKey); ++i) {
    DispatchKey other = key(4096);
    reinterpret_cast<unsigned char*>(&other)[i] ^= 1;
    EXPECT_EQ(table.find(other), nullptr) << "byte " << i;
  }
}

TEST(DispatchTable, GrowsAndKeepsEntriesInPlace) {
  DispatchTable table;
  std::vector<const DispatchEntry*> entries;
  for (int64_t n = 0; n < 5000; ++n) entries.push_back(table.insert({key(n), kernel(n), 1, false, {}}));
  for (int64_t n = 0; n < 5000; ++n) {
    ASSERT_EQ(table.find(key(n)), entries[static_cast<size_t>(n)]) << n;
    ASSERT_EQ(entries[static_cast<size_t>(n)]->kernel, kernel(n));
  }
  EXPECT_EQ(table.find(key(5000)), nullptr);
  EXPECT_EQ(table.size(), 5000u);
}

TEST(DispatchTable, ReadersRunWhileWritersGrowIt) {
  DispatchTable table;
  constexpr int64_t kPerWriter = 2000;
  constexpr int kWriters = 2, kReaders = 2;
  std::atomic<int> writing{kWriters};
  std::atomic<int64_t> wrong{0}, found{0};
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      for (int64_t i = 0; i < kPerWriter; ++i) {
        // Every second key is inserted by all writers.
        const int64_t n = i % 2 == 0 ? i : i + kPerWriter * w;
        if (table.insert({key(n), kernel(n), 1, false, {}})->kernel != kernel(n)) ++wrong;
        if (table.find(key(n)) == nullptr) ++wrong;
      }
      --writing;
    });
  }
  for (int r = 0; r < kReaders; ++r) {
    threads.emplace_back([&] {
      do {
        for (int64_t n = 0; n < kPerWriter * kWriters; n += 3) {
          const DispatchEntry* entry = table.find(key(n));
          if (entry == nullptr) continue;
          ++found;
          if (entry->kernel != kernel(n) || !(entry->key == key(n))) ++wrong;
        }
      } while (writing.load() > 0);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_GT(found.load(), 0);
  EXPECT_EQ(table.size(), static_cast<size_t>(kPerWriter / 2 + kPerWriter / 2 * kWriters));
}

}  // namespace
}  // namespace lathe
