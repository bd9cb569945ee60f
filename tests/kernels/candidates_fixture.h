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
  for (const KernelFamily& family : kernel_families())
    if (family.op == c.op && family.backend == facts.target.backend) family.enumerate(context, &out);
  return out;
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
