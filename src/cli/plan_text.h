// Turns the JSON of a plan (lathe_plan_explain) into text.
#pragma once

#include <string>

#include "cli/config_text.h"
#include "cli/session.h"

namespace lathe::cli {

absl::StatusOr<Json> explain(lathe_plan* plan);

// config_line of the plan's choice.
std::string choice_line(const Json& plan);
// The predicted time: "3.21 ms". If the class covers several sizes, the text says that the time is for one of them.
std::string prediction(const Json& plan);
// "NVIDIA H200, sm_90a"
std::string device_line(const Json& plan);
// "3.21 ms", "45.0 us"
std::string duration(double seconds);
// The source of a fact. If lathe_devices gave its origin, that comes first: "table    Zen 4 EPYC, 12 channels".
std::string where_from(const Json& fact);
// One line per fact: name, value, where from.
std::string facts_lines(const Json& facts, const std::string& indent);
// The whole explanation: the choice, its prediction, the candidates, and the facts they are based on.
std::string explain_text(const Json& plan);

}  // namespace lathe::cli
