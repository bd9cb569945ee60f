// The candidates of a request, by its plan's own account.
#pragma once

#include <string>
#include <vector>

#include "lathe/lathe.h"
#include "nlohmann/json.hpp"

namespace lathe::conformance {

// The legal ones in rank order: element r - 1 is what lathe_tuning.candidate r takes. Fails the test when
// there is none.
std::vector<nlohmann::json> legal_candidates(lathe_device* device, const lathe_matmul_desc& desc);
std::vector<nlohmann::json> legal_candidates(lathe_device* device, const lathe_argmax_desc& desc);
std::vector<nlohmann::json> legal_candidates(lathe_device* device, const lathe_matmul_argmax_desc& desc);

// One form of kernel and the rank of its best candidate.
struct KernelForm {
  std::string name;  // "wgmma swap=1 split=2"
  int32_t rank = 0, splits = 1;
};
// Every form among the candidates: what kernel, whether of the transposed product, rows of argmax that share
// a workgroup, who merges splits.
std::vector<KernelForm> kernel_forms(const std::vector<nlohmann::json>& candidates);

}  // namespace lathe::conformance
