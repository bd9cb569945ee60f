// A plan's JSON (lathe_plan_explain) as text for people.
#pragma once

#include <string>

#include "cli/config_text.h"
#include "cli/session.h"

namespace lathe::cli {

absl::StatusOr<Json> explain(lathe_plan* plan);

// The config_line of a whole plan: its own choice.
std::string choice_line(const Json& plan);
// "3.21 ms", and of what, where the class has requests of many sizes: one time stands for all of them.
std::string prediction(const Json& plan);
// "NVIDIA H200, sm_90a"
std::string device_line(const Json& plan);
// "3.21 ms", "45.0 us"
std::string duration(double seconds);
// A line a fact: name, value, source.
std::string facts_lines(const Json& facts, const std::string& indent);
// The choice, its prediction, what it was made from, and the other candidates.
std::string explain_text(const Json& plan);

}  // namespace lathe::cli
