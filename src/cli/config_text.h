// A compile config (src/core/plan.h) in JSON as text for people. The benchmarks name candidates by it too.
#pragma once

#include <cstdint>
#include <string>

#include "nlohmann/json.hpp"

namespace lathe::cli {

// "panel  tile 112x256x384  registers 14x32  splits 4 merged in a second step"
std::string config_line(const nlohmann::json& config, int64_t splits);

}  // namespace lathe::cli
