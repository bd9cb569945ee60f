// Turns the JSON of a compile config (src/core/plan.h) into text. The benchmarks also name candidates by it.
#pragma once

#include <cstdint>
#include <string>

#include "nlohmann/json.hpp"

namespace lathe::cli {

// One line, such as "panel  tile 112x256x384  registers 14x32  splits 4 merged in a second step".
std::string config_line(const nlohmann::json& config, int64_t splits);

}  // namespace lathe::cli
