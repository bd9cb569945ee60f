#include "candidates.h"

#include "device.h"

namespace lathe::conformance {

std::vector<nlohmann::json> legal_candidates(lathe_device* device, const lathe_matmul_desc& desc) {
  std::vector<nlohmann::json> legal;
  lathe_plan* plan = nullptr;
  EXPECT_LATHE_OK(lathe_plan_matmul(device, &desc, &plan));
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

}  // namespace lathe::conformance
