// The candidates of a request, read from the explanation of its plan.
#pragma once

#include <string>
#include <vector>

#include "lathe/lathe.h"
#include "nlohmann/json.hpp"

namespace lathe::conformance {

// The legal candidates by rank: element r - 1 belongs to lathe_tuning.candidate r. Fails the test if there is none.
std::vector<nlohmann::json> legal_candidates(lathe_device* device, const lathe_matmul_desc& desc);
std::vector<nlohmann::json> legal_candidates(lathe_device* device, const lathe_argmax_desc& desc);
std::vector<nlohmann::json> legal_candidates(lathe_device* device, const lathe_matmul_argmax_desc& desc);
std::vector<nlohmann::json> legal_candidates(lathe_device* device, const lathe_grouped_matmul_desc& desc);

// One form of kernel and the rank of its best candidate.
struct KernelForm {
  std::string name;  // "wgmma transposed=1 matrix=0 split=2"
  int32_t rank = 0, splits = 1;
};
// Every form among the candidates. Forms differ in the kernel, in whether it computes the transposed product, in the
// argmax rows that share a workgroup, and in the way to merge splits.
std::vector<KernelForm> kernel_forms(const std::vector<nlohmann::json>& candidates);

}  // namespace lathe::conformance
