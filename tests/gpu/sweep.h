// What the sweeps over plans share: the selection of plans, the threads, and the report of failures.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sweep_plans.h"
#include "tests/sample.h"

namespace lathe {

// Whether LATHE_TEST_EVERY_PLAN=1 asks for all plans.
inline bool every_plan() {
  const char* text = std::getenv("LATHE_TEST_EVERY_PLAN");
  return text != nullptr && std::string(text) == "1";
}

// The plans whose description contains the text of LATHE_TEST_PLANS; if it is not set, the sample of all plans.
inline std::vector<SweepPlan> wanted(std::vector<SweepPlan> plans) {
  const char* text = std::getenv("LATHE_TEST_PLANS");
  uint64_t number = 0;
  const auto is_unwanted = [&](const SweepPlan& p) {
    return text != nullptr ? p.describe().find(text) == std::string::npos
                           : !is_in_sample(sample_seed(), number++);
  };
  plans.erase(std::remove_if(plans.begin(), plans.end(), is_unwanted), plans.end());
  return plans;
}

// Calls visit(plan) for every plan, on as many threads as there are cores.
template <typename Visit>
void for_each_plan(const std::vector<SweepPlan>& plans, Visit visit) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < plans.size();) visit(plans[i]);
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
}

// Prints the first 20 failures at once, or all of them in a run over every plan, which takes long.
class Failures {
 public:
  void add(const SweepPlan& plan, const std::string& why) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (++count_ <= 20 || every_plan()) std::cout << plan.describe() << "\n    " << why << std::endl;
  }
  void expect_none() const { EXPECT_EQ(count_, 0); }

 private:
  std::mutex mutex_;
  int count_ = 0;
};

}  // namespace lathe
