// The coefficients of the CPU's cost model (kernels/matmul/cpu/cost_model.h), from kernels/matmul/cpu/costs.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace lathe {

struct CpuCost {
  absl::string_view processor;  // the name of the file: "zen4"
  absl::string_view fact;       // "cost_issue"
  double value;
};
absl::Span<const CpuCost> cpu_costs();
// For processors without a file.
inline constexpr absl::string_view kDefaultCosts = "emerald-rapids";
// Whether a fact is a coefficient of that model.
bool is_cpu_cost(absl::string_view fact);

}  // namespace lathe
