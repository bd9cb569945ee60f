#include "candidates.h"

#include <set>

#include "device.h"

namespace lathe::conformance {
namespace {

// Destroys the plan.
std::vector<nlohmann::json> legal_candidates(lathe_plan* plan) {
  std::vector<nlohmann::json> legal;
  if (plan == nullptr) return legal;
  const nlohmann::json json = nlohmann::json::parse(explain(plan), nullptr, false);
  lathe_plan_destroy(plan);
  EXPECT_TRUE(json.is_object() && json.contains("candidates"));
  for (const auto& candidate : json["candidates"]) {
    if (!candidate.value("legal", false)) continue;
    legal.push_back(candidate);
    EXPECT_EQ(candidate.value("rank", size_t{0}), legal.size()) << "legal candidates come first";
  }
  EXPECT_FALSE(legal.empty());
  return legal;
}

}  // namespace

std::vector<nlohmann::json> legal_candidates(lathe_device* device, const lathe_matmul_desc& desc) {
  lathe_plan* plan = nullptr;
  EXPECT_LATHE_OK(lathe_plan_matmul(device, &desc, &plan));
  return legal_candidates(plan);
}

std::vector<nlohmann::json> legal_candidates(lathe_device* device, const lathe_argmax_desc& desc) {
  lathe_plan* plan = nullptr;
  EXPECT_LATHE_OK(lathe_plan_argmax(device, &desc, &plan));
  return legal_candidates(plan);
}

std::vector<nlohmann::json> legal_candidates(lathe_device* device, const lathe_matmul_argmax_desc& desc) {
  lathe_plan* plan = nullptr;
  EXPECT_LATHE_OK(lathe_plan_matmul_argmax(device, &desc, &plan));
  return legal_candidates(plan);
}

std::vector<nlohmann::json> legal_candidates(lathe_device* device, const lathe_grouped_matmul_desc& desc) {
  lathe_plan* plan = nullptr;
  EXPECT_LATHE_OK(lathe_plan_grouped_matmul(device, &desc, &plan));
  return legal_candidates(plan);
}

std::vector<KernelForm> kernel_forms(const std::vector<nlohmann::json>& candidates) {
  std::vector<KernelForm> forms;
  std::set<std::string> seen;
  for (const nlohmann::json& candidate : candidates) {
    const nlohmann::json& config = candidate["config"];
    KernelForm form;
    form.name = config.value("kernel", "");
    if (form.name == "rows") form.name += " tile_m=" + std::to_string(config.value("tile_m", 1));
    for (const char* field : {"transposed", "matrix", "split"})
      form.name += std::string(" ") + field + "=" + std::to_string(config.value(field, 0));
    form.rank = candidate.value("rank", 0);
    form.splits = candidate.value("splits", 1);
    if (seen.insert(form.name).second) forms.push_back(form);
  }
  return forms;
}

}  // namespace lathe::conformance
