// A hit of the dispatch table does not allocate. A replaced operator new counts allocations.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "fake_device.h"

namespace {
thread_local bool counting = false;
thread_local int allocations = 0;

void* counted(std::size_t size) {
  if (counting) ++allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

namespace lathe {
namespace {

TEST(Allocation, HitDoesNotAllocate) {
  FakeDevice fake;
  fake.driver->record = false;
  MatmulRequest m(7, 40, 33);
  ArgmaxRequest a(3, 100);
  lathe_plan* plan = nullptr;
  ASSERT_EQ(lathe_plan_matmul(fake.device.get(), &m.desc, &plan), LATHE_OK) << lathe_last_error();
  ASSERT_EQ(lathe_argmax(fake.device.get(), nullptr, &a.desc), LATHE_OK) << lathe_last_error();

  counting = true;
  bool good = true;
  for (int i = 0; i < 1000; ++i) {
    good &= lathe_matmul(fake.device.get(), nullptr, &m.desc) == LATHE_OK;
    good &= lathe_argmax(fake.device.get(), nullptr, &a.desc) == LATHE_OK;
    good &= lathe_plan_run_matmul(plan, nullptr, &m.desc) == LATHE_OK;
  }
  counting = false;
  EXPECT_TRUE(good);
  EXPECT_EQ(allocations, 0);
  EXPECT_GE(fake.driver->launches.load(), 3000);

  counting = true;
  m.desc.m = -1;
  EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_INVALID_ARGUMENT);
  counting = false;
  EXPECT_GT(allocations, 0) << "the counter works: the message of a failure is allocated";
  lathe_plan_destroy(plan);
}

}  // namespace
}  // namespace lathe
