#include "cli/plan_text.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace lathe::cli {
namespace {

std::string scalar(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// "name value, name value": the fields of a flat object that are neither empty nor 0.
std::string fields_line(const Json& object) {
  std::string out;
  for (const auto& [name, value] : object.items()) {
    if (value.is_object() || value.is_array() || value == Json(0) || value == Json("none") ||
        value == Json(""))
      continue;
    absl::StrAppend(&out, out.empty() ? "" : ", ", name, " ", scalar(value));
  }
  return out;
}

// "openblas", "ukernel" or "generated".
std::string kind_of(const Json& config) {
  if (config.contains("external"))
    if (const std::string library = config["external"].value("library", ""); !library.empty()) return library;
  const bool ukernel = config.contains("ukernel") && !config["ukernel"].value("function", "").empty();
  return ukernel ? "ukernel" : "generated";
}

// Sorting key: legal candidates first, among them measured ones first, then by time.
std::tuple<bool, bool, double> order_of(const Json& candidate) {
  const bool measured = candidate.contains("measured_seconds");
  return {candidate.contains("rejection"), !measured,
          candidate.value(measured ? "measured_seconds" : "predicted_seconds",
                          std::numeric_limits<double>::infinity())};
}

std::string time_of(const Json& candidate, const char* field) {
  return candidate.contains(field) ? duration(candidate.value(field, 0.0)) : "-";
}

// The best candidate of each kind, one line each: generated code, ukernels, and each external library, also if it is
// rejected.
std::string kinds_text(const Json& candidates) {
  std::vector<std::pair<std::string, const Json*>> kinds = {{"generated", nullptr}, {"ukernel", nullptr}};
  for (const Json& c : candidates) {
    const std::string kind = kind_of(c.value("config", Json::object()));
    auto at =
        std::find_if(kinds.begin(), kinds.end(), [&](const auto& known) { return known.first == kind; });
    if (at == kinds.end()) at = kinds.insert(at, {kind, nullptr});
    if (at->second == nullptr || order_of(c) < order_of(*at->second)) at->second = &c;
  }
  std::string out;
  for (const auto& [kind, best] : kinds) {
    if (best == nullptr) continue;
    const std::string reason = best->value("rejection", "");
    absl::StrAppend(
        &out, absl::StrFormat("  %-9s  %9s  %9s  %s%s\n", kind, time_of(*best, "predicted_seconds"),
                              time_of(*best, "measured_seconds"),
                              config_line(best->value("config", Json::object()), best->value("splits", 1)),
                              reason.empty() ? "" : absl::StrCat("; ", reason)));
  }
  return out;
}

}  // namespace

absl::StatusOr<Json> explain(lathe_plan* plan) {
  std::vector<Text> pieces;
  if (absl::Status s = check(lathe_plan_explain(plan, collect_text, &pieces)); !s.ok()) return s;
  return parse_json(pieces, "explain");
}

std::string where_from(const Json& fact) {
  const std::string origin = fact.value("origin", ""), source = fact.value("source", "");
  if (origin.empty()) return source;
  const absl::string_view plain = absl::StripPrefix(absl::StripPrefix(source, "measured: "), "default: ");
  return absl::StrFormat("%-8s %s", origin, plain);
}

std::string facts_lines(const Json& facts, const std::string& indent) {
  std::string out;
  for (const auto& [name, fact] : facts.items()) {
    absl::StrAppend(
        &out, indent,
        absl::StrFormat("%-33s %16.10g   %s\n", name, fact.value("value", 0.0), where_from(fact)));
  }
  return out;
}

std::string prediction(const Json& plan) {
  const Json problem = plan.value("class", Json::object());
  const auto is_range = [&](const char* lo, const char* hi) {
    return problem.value(lo, int64_t{0}) != problem.value(hi, int64_t{0});
  };
  const bool is_open =
      is_range("m_lo", "m_hi") || is_range("row_lo", "row_hi") || problem.value("op", "") == "elementwise";
  // On a GPU all groups of a grouped product are one launch.
  const std::string rows = problem.value("rows", "plain");
  const bool on_cpu = plan.value("target", Json::object()).value("backend", "") == "cpu";
  const bool is_grouped = !on_cpu && rows != "plain" && rows != "device_m";
  return absl::StrCat(duration(plan.value("predicted_seconds", 0.0)), is_grouped ? " for all groups" : "",
                      is_grouped && is_open ? ", each" : "",
                      is_open ? " for the representative size of its class" : "");
}

std::string choice_line(const Json& plan) {
  // "splits" is what a launch of a loaded kernel gets. Without a loaded kernel only "wanted_splits" exists.
  const Json launch = plan.value("launch", Json::object());
  return config_line(plan.value("config", Json::object()),
                     launch.value("splits", launch.value("wanted_splits", 1)));
}

std::string device_line(const Json& plan) {
  const Json facts = plan.value("facts", Json::object());
  const std::string name = facts.value("name", plan.value("device", ""));
  return absl::StrCat(name, ", ", plan.value("target", Json::object()).value("arch", "?"));
}

std::string duration(double seconds) {
  if (seconds < 1e-6) return absl::StrFormat("%.0f ns", seconds * 1e9);
  if (seconds < 1e-3) return absl::StrFormat("%.3g us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.3g ms", seconds * 1e3);
  return absl::StrFormat("%.3g s", seconds);
}

std::string explain_text(const Json& plan) {
  std::string out;
  const auto line = [&](const char* name, const std::string& text) {
    if (!text.empty()) absl::StrAppend(&out, absl::StrFormat("%-11s%s\n", name, text));
  };
  const Json facts = plan.value("facts", Json::object());
  line("request", plan.value("request", ""));
  line("device", facts.value("name", plan.value("device", "")));
  line("target", fields_line(plan.value("target", Json::object())));
  line("class", fields_line(plan.value("class", Json::object())));
  if (!plan.contains("config")) {
    line("choice", "none, because this request needs no kernel");
    return out;
  }
  const std::string by = plan.value("chosen_by", "oracle");
  line("choice",
       absl::StrCat(choice_line(plan), by == "oracle" ? "" : absl::StrCat("  (chosen by the ", by, ")")));
  line("predicted", prediction(plan));
  line("numbers", plan.value("numeric_recipe", ""));
  line("key", plan.value("key", Json::object()).value("fingerprint", ""));

  std::string fields;
  for (const Json& f : plan.value("fields", Json::array()))
    absl::StrAppend(&fields, absl::StrFormat("  %-14s %7d  %s\n", f.value("name", ""),
                                             f.value("value", int64_t{0}), f.value("meaning", "")));
  if (!fields.empty()) absl::StrAppend(&out, "\nFields of the choice\n", fields);

  std::string legal, rejected, externals;
  bool measured = false;
  const Json candidates = plan.value("candidates", Json::array());
  for (const Json& c : candidates) {
    measured |= c.contains("measured_seconds");
    const std::string config = config_line(c.value("config", Json::object()), c.value("splits", 1));
    if (const std::string reason = c.value("rejection", ""); !reason.empty()) {
      const auto told = [&](const char* what, const char* field) {
        return c.contains(field) ? absl::StrCat("; ", what, " ", time_of(c, field)) : "";
      };
      absl::StrAppend(&rejected, absl::StrFormat("  %-56s  %s%s%s\n", config, reason,
                                                 told("predicted", "predicted_seconds"),
                                                 told("measured", "measured_seconds")));
    } else {
      absl::StrAppend(
          &legal, absl::StrFormat("  %3d  %9s  %9s  %s\n", c.value("rank", 0),
                                  time_of(c, "predicted_seconds"), time_of(c, "measured_seconds"), config));
    }
  }
  absl::StrAppend(&out, "\nBest of each kind\n             predicted   measured\n", kinds_text(candidates));
  absl::StrAppend(
      &out, "\nLegal candidates, best first (--candidate RANK forces one)\n  rank  predicted   measured\n",
      legal);
  if (!measured) absl::StrAppend(&out, "  ('lathe tune' measures them)\n");
  if (!rejected.empty()) absl::StrAppend(&out, "\nRejected\n", rejected);
  for (const Json& found : plan.value("external", Json::object()).value("found", Json::array())) {
    const std::string absent = found.value("absent", "");
    absl::StrAppend(&externals,
                    absl::StrFormat("  %-10s %s\n", found.value("library", ""),
                                    absent.empty() ? found.value("version", "") : "absent: " + absent));
  }
  if (!externals.empty())
    absl::StrAppend(&out, "\nExternal libraries (", plan["external"].value("use", ""), ")\n", externals);
  absl::StrAppend(&out, "\nFacts\n", facts_lines(facts.value("facts", Json::object()), "  "));
  return out;
}

}  // namespace lathe::cli
