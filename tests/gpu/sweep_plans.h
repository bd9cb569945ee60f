// The plans that the oracle chooses for the shipped devices over real layers.
#pragma once

#include <string>
#include <vector>

#include "core/facts.h"
#include "core/plan.h"
#include "core/problem.h"

namespace lathe {

struct SweepPlan : Plan {
  const DeviceFacts* facts;
  ProblemClass problem;
  std::string key;  // the cache's: plans with one key are one kernel

  // What the table of results calls it: "wgmma", "simt", "argmax rows".
  std::string family() const;
  std::string describe() const;
  // What shapes the code but for the numbers in it: plans of one form differ in sizes, and so in constants,
  // alone. Whether N and K end with a tile and with 16 bytes of the widest elements is part of it.
  std::string form() const;
};

// benchmarks/shapes.csv by buckets of M from 1 to 8192 by dtype and alignment; layouts, epilogues, narrow
// types, tf32 and matmul_argmax on a few of them; argmax of every length. The first choice of each, every
// kernel once. `whole` false: a quarter of the layers.
std::vector<SweepPlan> chosen_plans(Backend backend, bool whole);
// The same for every legal candidate of a few classes: what tuning or a forced candidate can reach.
std::vector<SweepPlan> legal_plans(Backend backend);
// Of those the ukernels, which the oracle does not choose by itself: one for each target, function and way to
// merge a split.
std::vector<SweepPlan> ukernel_plans(Backend backend);
// At most `count` of each group, spread over it: the same ones each time.
std::vector<SweepPlan> sample(const std::vector<SweepPlan>& plans, size_t count,
                              std::string (*group)(const SweepPlan&));

}  // namespace lathe
