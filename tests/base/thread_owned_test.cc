#include "base/thread_owned.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace lathe {
namespace {

std::atomic<int> made{0}, gone{0};
struct Counted {
  Counted() { ++made; }
  ~Counted() { ++gone; }
  int value = 0;
};

TEST(ThreadOwned, EachThreadHasItsOwnObjectUntilItEnds) {
  made = gone = 0;
  Counted* of_first = nullptr;
  std::thread first([&] {
    of_first = of_this_thread<Counted>();
    of_first->value = 1;
    EXPECT_EQ(of_this_thread<Counted>(), of_first);
    std::thread([&] {
      EXPECT_NE(of_this_thread<Counted>(), of_first);
      EXPECT_EQ(of_this_thread<Counted>()->value, 0);
    }).join();
    EXPECT_EQ(gone, 1);
    EXPECT_EQ(of_first->value, 1);
  });
  first.join();
  EXPECT_EQ(made, 2);
  EXPECT_EQ(gone, 2);
}

}  // namespace
}  // namespace lathe
