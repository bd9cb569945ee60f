#include "cli/plan_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lathe::cli {
namespace {

std::string scalar(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// "name value, name value": the fields of a flat object that say something.
std::string fields_line(const Json& object) {
  std::string out;
  for (const auto& [name, value] : object.items()) {
    if (value.is_object() || value.is_array() || value == Json(0) || value == Json("none")) continue;
    absl::StrAppend(&out, out.empty() ? "" : ", ", name, " ", scalar(value));
  }
  return out;
}

}  // namespace

absl::StatusOr<Json> explain(lathe_plan* plan) {
  std::vector<Text> pieces;
  if (absl::Status s = check(lathe_plan_explain(plan, collect_text, &pieces)); !s.ok()) return s;
  return parse_json(pieces, "explain");
}

std::string config_line(const Json& config, const Json& launch) {
  const auto number = [&](const char* name) { return config.value(name, 0); };
  std::string out = absl::StrFormat("%-6s tile %dx%dx%d", config.value("kernel", "?"), number("tile_m"),
                                    number("tile_n"), number("tile_k"));
  absl::StrAppend(&out, "  registers ", number("register_m"), "x", number("register_n"));
  if (number("threads") > 1) absl::StrAppend(&out, "  threads ", number("threads"));
  if (number("stages") > 1) absl::StrAppend(&out, "  stages ", number("stages"));
  if (launch.value("splits", 1) > 1) absl::StrAppend(&out, "  splits ", launch.value("splits", 1));
  return out;
}

std::string duration(double seconds) {
  if (seconds < 1e-6) return absl::StrFormat("%.0f ns", seconds * 1e9);
  if (seconds < 1e-3) return absl::StrFormat("%.3g us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.3g ms", seconds * 1e3);
  return absl::StrFormat("%.3g s", seconds);
}

std::string explain_text(const Json& plan) {
  const Json config = plan.value("config", Json::object()), launch = plan.value("launch", Json::object());
  std::string out;
  if (plan.contains("class")) absl::StrAppend(&out, "class      ", fields_line(plan["class"]), "\n");
  if (plan.contains("target")) absl::StrAppend(&out, "target     ", fields_line(plan["target"]), "\n");
  absl::StrAppend(&out, "choice     ", config_line(config, launch), "\n");
  absl::StrAppend(&out, "predicted  ", duration(plan.value("predicted_seconds", 0.0)), "\n");
  absl::StrAppend(&out, "numbers    ", plan.value("numeric_recipe", ""), "\n");
  if (plan.contains("fingerprint")) absl::StrAppend(&out, "key        ", scalar(plan["fingerprint"]), "\n");

  const Json candidates = plan.value("candidates", Json::array());
  std::string legal, rejected;
  int rank = 0, refused = 0;
  for (const Json& c : candidates) {
    const std::string line =
        config_line(c.value("config", Json::object()), c.value("launch", Json::object()));
    const std::string reason = c.value("rejection", "");
    if (reason.empty()) {
      absl::StrAppend(&legal, absl::StrFormat("  %3d  %10s  %s\n", ++rank,
                                              duration(c.value("predicted_seconds", 0.0)), line));
    } else {
      absl::StrAppend(&rejected, absl::StrFormat("  %-64s  %s\n", line, reason));
      ++refused;
    }
  }
  if (rank) absl::StrAppend(&out, "\nLegal candidates, best first (--candidate RANK forces one)\n", legal);
  if (refused) absl::StrAppend(&out, "\nRejected\n", rejected);

  const Json facts = plan.value("facts", Json::object());
  if (!facts.empty()) absl::StrAppend(&out, "\nFacts\n");
  for (const auto& [name, fact] : facts.items()) {
    if (!fact.is_object() || !fact.contains("value")) continue;
    absl::StrAppend(&out, absl::StrFormat("  %-26s %16.10g   %s\n", name, fact.value("value", 0.0),
                                          fact.value("source", "")));
  }
  return out;
}

}  // namespace lathe::cli
