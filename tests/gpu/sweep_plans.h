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
  std::string key;  // the cache key: plans with the same key are the same kernel

  // The name in the table of results: "wgmma", "simt", "argmax rows".
  std::string family() const;
  std::string describe() const;
  // Everything that shapes the code except its numbers: plans of the same form differ only in sizes, that is, in
  // constants. The form says whether N and K end with a tile and with 16 bytes of the widest elements.
  std::string form() const;
};

// The first choice of the oracle, each kernel once: for the layers of benchmarks/shapes.csv with M buckets from 1 to
// 8192, dtypes and alignments; for layouts, epilogues, narrow types, tf32 and matmul_argmax on a few of them; for
// argmax of every length. With `whole` false, a quarter of the layers.
std::vector<SweepPlan> chosen_plans(Backend backend, bool whole);
// Every legal candidate of a few classes: what tuning or a forced candidate can select.
std::vector<SweepPlan> legal_plans(Backend backend);
// The ukernels among those, which the oracle does not choose by itself: one per target, function and way to merge a
// split.
std::vector<SweepPlan> ukernel_plans(Backend backend);
// At most `count` plans of each group, evenly spread over the group; deterministic.
std::vector<SweepPlan> sample(const std::vector<SweepPlan>& plans, size_t count,
                              std::string (*group)(const SweepPlan&));

}  // namespace lathe
