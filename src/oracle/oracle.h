// The oracle: ranks the plans for a problem class on a device. All functions are pure: they read no clock and
// no environment and call no device.
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
  int32_t split_k = 0;  // number of K splits to use; 0: the oracle chooses
  ExternalPolicy external = {};
  const std::vector<UserUkernel>* user_ukernels = nullptr;  // null: none
};

struct OracleAnswer {
  // First the legal plans by predicted time (equal times: in table order), with preferred external libraries
  // before all others. Then the rejected plans with their reasons.
  std::vector<RankedPlan> ranked;
  size_t legal = 0;  // number of legal plans
};

// kUnimplemented if no candidate is legal; the message lists the reasons.
absl::StatusOr<OracleAnswer> rank_plans(const ProblemClass& c, const DeviceFacts& facts,
                                        const OraclePolicy& policy);

// Returns only the best plan, ranked[0] of rank_plans, in a fraction of its time.
absl::StatusOr<OracleAnswer> first_plan(const ProblemClass& c, const DeviceFacts& facts,
                                        const OraclePolicy& policy);

// The seconds of a grouped product on a GPU, from those that a plan of its class predicts. The class has the rows of a
// mean group, so the prediction is of one group; `dims` have the slots (M) and the groups (batch).
double seconds_of_groups(const Plan& of_group, const Dims& dims, const DeviceFacts& facts);

// All classes of a weight for M in [1, m_max], with every alignment, on a device of this backend. `c`
// describes the weight; its M bucket and alignment are ignored.
std::vector<ProblemClass> classes_of_weight(const ProblemClass& c, int64_t m_max, Backend backend);

}  // namespace lathe
