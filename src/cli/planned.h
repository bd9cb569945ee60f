// The plan that a command line's request gets on the device it names, for verbs that look at one.
#pragma once

#include "absl/functional/function_ref.h"
#include "cli/command_line.h"
#include "lathe/lathe.h"

namespace lathe::cli {

using PlanUse = absl::FunctionRef<absl::Status(lathe_plan* plan, const Arguments& arguments)>;
absl::Status with_matmul_plan(const Arguments& arguments, PlanUse use);
absl::Status with_argmax_plan(const Arguments& arguments, PlanUse use);
absl::Status with_elementwise_plan(const Arguments& arguments, PlanUse use);
absl::Status with_matmul_argmax_plan(const Arguments& arguments, PlanUse use);

}  // namespace lathe::cli
