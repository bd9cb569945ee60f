#include "runtime/cpu/slab_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <thread>
#include <vector>

namespace lathe {
namespace {

TEST(SlabPool, ReturnsAlignedMemoryOfTheRequestedSize) {
  SlabPool pool;
  for (const size_t bytes : {size_t{1}, size_t{64}, size_t{65}, size_t{4096}, (size_t{2} << 20) - 1,
                             size_t{2} << 20, (size_t{5} << 20) + 3}) {
    SlabPool::Slab slab = pool.take(bytes);
    ASSERT_NE(slab.data(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(slab.data()) % (bytes >= (2u << 20) ? 2u << 20 : 64), 0u) << bytes;
    std::memset(slab.data(), 0x5a, bytes);
  }
}

TEST(SlabPool, ThreadGetsItsLastSlabAgain) {
  SlabPool pool;
  void* first;
  {
    SlabPool::Slab slab = pool.take(1000);
    first = slab.data();
  }
  for (const size_t bytes : {1000, 1, 500}) {
    SlabPool::Slab slab = pool.take(bytes);
    EXPECT_EQ(slab.data(), first);
  }
}

TEST(SlabPool, SlabsInUseAreDistinctEvenBeyondTheSlots) {
  SlabPool pool;
  std::vector<SlabPool::Slab> slabs;
  std::set<void*> seen;
  for (uint32_t i = 0; i < 2 * SlabPool::kSlots; ++i) {
    slabs.push_back(pool.take(256));
    ASSERT_NE(slabs.back().data(), nullptr);
    EXPECT_TRUE(seen.insert(slabs.back().data()).second);
    std::memset(slabs.back().data(), static_cast<int>(i), 256);
  }
}

TEST(SlabPool, ReplacesAnIdleSlabThatIsTooSmall) {
  SlabPool pool;
  { SlabPool::Slab slab = pool.take(64); }
  void* grown;
  {
    SlabPool::Slab slab = pool.take(3 << 20);
    grown = slab.data();
    std::memset(grown, 1, 3 << 20);
  }
  SlabPool::Slab slab = pool.take(64);
  EXPECT_EQ(slab.data(), grown);
}

TEST(SlabPool, ReturnsNullIfMemoryIsShort) {
  SlabPool pool;
  EXPECT_EQ(pool.take(SIZE_MAX).data(), nullptr);
  EXPECT_EQ(pool.take(size_t{1} << 60).data(), nullptr);
  EXPECT_NE(pool.take(100).data(), nullptr);
}

TEST(SlabPool, ConcurrentTakersNeverShareASlab) {
  SlabPool pool;
  std::vector<std::thread> threads;
  std::atomic<int> overlaps{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const size_t bytes = 64 + static_cast<size_t>((i * 37 + t * 101) % 4000);
        SlabPool::Slab slab = pool.take(bytes);
        auto* data = static_cast<volatile unsigned char*>(slab.data());
        for (size_t b = 0; b < 64; ++b) data[b] = static_cast<unsigned char>(t + 1);
        data[bytes - 1] = static_cast<unsigned char>(t + 1);
        for (size_t b = 0; b < 64; ++b) overlaps += data[b] != t + 1;
        overlaps += data[bytes - 1] != t + 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(overlaps.load(), 0);
}

}  // namespace
}  // namespace lathe
