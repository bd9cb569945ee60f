// What a device and its context add to a problem class: its description, and what its kernel is compiled from.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/elementwise.h"
#include "core/json.h"
#include "core/plan.h"
#include "core/problem.h"

struct lathe_device;

namespace lathe {

// The largest sizes of a class, with one matrix. If the range of M is open above, no request has these sizes;
// use them for messages and for estimates.
Dims largest_request(const ProblemClass& c);
// Describes that request: "matmul f32 a=n b=t m=16 n=4096 k=33 batch=1 on cpu".
std::string describe_class(const lathe_device& device, const ProblemClass& c);

// The user's pipeline that compiles the class's kernel. Null: the built-in one.
const Json* pipeline_for(const lathe_device& device, const ProblemClass& c, const CompileConfig& config);
// The codegen id in the keys of the class's kernels.
std::string codegen_for(const lathe_device& device, const ProblemClass& c);
// The program of an elementwise class; null for any other op. kUnavailable: no manifest or request has brought
// the program to this context.
absl::StatusOr<std::shared_ptr<const ElementwiseProgram>> program_for(const lathe_device& device,
                                                                      const ProblemClass& c);

}  // namespace lathe
