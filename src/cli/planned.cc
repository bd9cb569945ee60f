#include "cli/planned.h"

#include <type_traits>

namespace lathe::cli {
namespace {

auto planner_of(const MatmulRequest&) { return lathe_plan_matmul; }
auto planner_of(const ArgmaxRequest&) { return lathe_plan_argmax; }
auto planner_of(const MatmulArgmaxRequest&) { return lathe_plan_matmul_argmax; }
auto planner_of(const ElementwiseRequest&) { return lathe_plan_elementwise; }
auto explainer_of(const MatmulRequest&) { return lathe_explain_matmul; }
auto explainer_of(const ArgmaxRequest&) { return lathe_explain_argmax; }
auto explainer_of(const MatmulArgmaxRequest&) { return lathe_explain_matmul_argmax; }
auto explainer_of(const ElementwiseRequest&) { return lathe_explain_elementwise; }

template <typename Request, typename Call>
absl::Status call_with_descriptor(lathe_device* device, const Request& request, Call call) {
  lathe_tuning tuning;
  auto desc = descriptor(request, &tuning);
  if constexpr (std::is_same_v<Request, MatmulRequest>) {
    size_t bytes = 0;
    if (absl::Status s = check(describe_packed(device, request, &desc, &bytes)); !s.ok()) return s;
  }
  return check(call(&desc));
}

}  // namespace

template <typename Request>
absl::StatusOr<Plan> plan(lathe_device* device, const Request& request) {
  lathe_plan* made = nullptr;
  const absl::Status s = call_with_descriptor(
      device, request, [&](const auto* desc) { return planner_of(request)(device, desc, &made); });
  if (!s.ok()) return s;
  return Plan(made);
}

template <typename Request>
absl::StatusOr<Json> explain(lathe_device* device, const Request& request) {
  std::vector<Text> pieces;
  const absl::Status s = call_with_descriptor(device, request, [&](const auto* desc) {
    return explainer_of(request)(device, desc, collect_text, &pieces);
  });
  if (!s.ok()) return s;
  return parse_json(pieces, "explain");
}

template absl::StatusOr<Plan> plan(lathe_device*, const MatmulRequest&);
template absl::StatusOr<Plan> plan(lathe_device*, const ArgmaxRequest&);
template absl::StatusOr<Plan> plan(lathe_device*, const MatmulArgmaxRequest&);
template absl::StatusOr<Plan> plan(lathe_device*, const ElementwiseRequest&);
template absl::StatusOr<Json> explain(lathe_device*, const MatmulRequest&);
template absl::StatusOr<Json> explain(lathe_device*, const ArgmaxRequest&);
template absl::StatusOr<Json> explain(lathe_device*, const MatmulArgmaxRequest&);
template absl::StatusOr<Json> explain(lathe_device*, const ElementwiseRequest&);

}  // namespace lathe::cli
