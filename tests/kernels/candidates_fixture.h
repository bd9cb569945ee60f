// Helpers of the tests of the kernel families' candidate tables.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/candidates.h"

namespace lathe {

// Every candidate of every family that serves this class on this backend, rejected ones included.
inline std::vector<RankedPlan> candidates(const ProblemClass& c, const DeviceFacts& facts,
                                          int32_t workers = 1, int32_t split_k = 0) {
  std::vector<RankedPlan> out;
  const CandidateContext context{c, facts, workers, split_k};
  for (const KernelFamily& family : families_of(c.op))
    if (family.backend == facts.target.backend) family.enumerate(context, &out);
  return out;
}

// The legal plan with the shortest predicted time; an empty plan if there is none.
inline Plan cheapest(const std::vector<RankedPlan>& plans) {
  const RankedPlan* best = nullptr;
  for (const RankedPlan& r : plans)
    if (r.rejection.empty() && (!best || r.plan.predicted_seconds < best->plan.predicted_seconds)) best = &r;
  return best ? best->plan : Plan();
}

// A device with these facts only.
inline DeviceFacts synthetic(const std::string& target, const std::map<std::string, double>& values) {
  DeviceFacts f;
  f.name = "synthetic";
  f.target = parse_target(target).value();
  for (const auto& [name, value] : values) f.facts[name] = {value, "test"};
  return f;
}

}  // namespace lathe
