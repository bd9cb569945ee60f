// Problem class + facts -> ranked plans. Pure: no clock, no environment, no device call.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "core/external.h"
#include "core/facts.h"
#include "core/plan.h"
#include "core/problem.h"
#include "core/user_ukernel.h"

namespace lathe {

struct OraclePolicy {
  int32_t workers = 1;  // CPU threads a launch may use
  int32_t split_k = 0;  // forced factor; 0: free
  ExternalPolicy external = {};
  const std::vector<UserUkernel>* user_ukernels = nullptr;  // null: none
};

struct OracleAnswer {
  // Legal candidates first, by predicted time (ties: table order; preferred external libraries ahead of
  // them), then the rejected ones with their reasons.
  std::vector<RankedPlan> ranked;
  size_t legal = 0;
};

// kUnimplemented when no candidate is legal, with every reason.
absl::StatusOr<OracleAnswer> rank_plans(const ProblemClass& c, const DeviceFacts& facts,
                                        const OraclePolicy& policy);

// ranked[0] of rank_plans, alone, for a small part of its cost.
absl::StatusOr<OracleAnswer> first_plan(const ProblemClass& c, const DeviceFacts& facts,
                                        const OraclePolicy& policy);

// Every class of the weight that `c` describes (its bucket and alignment are ignored) for M in [1, m_max] on
// a device of `backend`, every alignment included.
std::vector<ProblemClass> classes_of_weight(const ProblemClass& c, int64_t m_max, Backend backend);

}  // namespace lathe
