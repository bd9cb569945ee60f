#include "core/cpu_costs.h"

namespace lathe {
namespace {

constexpr CpuCost kCosts[] = {
#include "cpu_costs.inc"
};

}  // namespace

absl::Span<const CpuCost> cpu_costs() { return kCosts; }

bool is_cpu_cost(absl::string_view fact) {
  for (const CpuCost& cost : kCosts)
    if (cost.processor == kDefaultCosts && cost.fact == fact) return true;
  return false;
}

}  // namespace lathe
