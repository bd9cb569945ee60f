#include "cli/params.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "cli/files.h"
#include "cli/plan_text.h"
#include "cli/request_flags.h"
#include "cli/warm_manifest.h"

namespace lathe::cli {
namespace {

absl::StatusOr<Plan> plan_of(lathe_device* device, const PayloadStep& step) {
  lathe_plan* made = nullptr;
  lathe_status status = LATHE_OK;
  if (const auto* d = std::get_if<lathe_matmul_desc>(&step.desc))
    status = lathe_plan_matmul(device, d, &made);
  if (const auto* d = std::get_if<lathe_argmax_desc>(&step.desc))
    status = lathe_plan_argmax(device, d, &made);
  if (const auto* d = std::get_if<lathe_matmul_argmax_desc>(&step.desc))
    status = lathe_plan_matmul_argmax(device, d, &made);
  if (const auto* d = std::get_if<Elementwise>(&step.desc))
    status = lathe_plan_elementwise(device, &d->desc, &made);
  if (absl::Status s = check(status); !s.ok())
    return absl::Status(s.code(), absl::StrCat(step.location, ": ", s.message()));
  return Plan(made);
}

// Whether several classes serve the step's rows.
bool needs_weight(const PayloadStep& step) {
  return step.open_rows && !std::holds_alternative<lathe_argmax_desc>(step.desc) &&
         !std::holds_alternative<Elementwise>(step.desc);
}

absl::Status add_weight(const PayloadStep& step, int64_t rows, lathe_manifest* manifest) {
  const char* name = step.location.c_str();
  if (const auto* d = std::get_if<lathe_matmul_desc>(&step.desc))
    return check(lathe_manifest_add_matmul(manifest, name, d, rows));
  return check(
      lathe_manifest_add_matmul_argmax(manifest, name, &std::get<lathe_matmul_argmax_desc>(step.desc), rows));
}

// A class of explain's as a manifest has it.
Json manifest_entry(const Json& problem, const PayloadStep& step, const lathe_tuning& tuning) {
  Json entry = problem;
  entry.erase("generic");
  if (step.json->contains("program")) entry["text"] = step.json->at("program");
  entry["name"] = step.location;
  if (tuning.split_k > 0) entry["split_k"] = tuning.split_k;
  if (tuning.candidate > 0) entry["candidate"] = tuning.candidate;
  return entry;
}

absl::Status add_class(const Json& entry, lathe_manifest* manifest) {
  const std::string text = Json({{"lathe_manifest", 1}, {"classes", Json::array({entry})}}).dump();
  return check(lathe_manifest_parse(manifest, text.data(), text.size()));
}

Json entry_of(const Json& plan, size_t step, int64_t rows) {
  return {{"step", step},
          {"rows", rows},
          {"class", plan.at("class")},
          {"config", plan.at("config")},
          {"splits", plan.at("launch").at("wanted_splits")}};
}

absl::StatusOr<Json> read_params(const std::string& path) {
  absl::StatusOr<Json> read = read_json_file(path);
  if (!read.ok()) return read.status();
  Json& json = *read;
  const size_t parts = json.is_object() ? json.count("entries") + json.count("parameters") : 0;
  const bool known = parts > 0 && json.value("lathe_params", Json()) == 1 && json.size() == 1 + parts &&
                     json.value("entries", Json::array()).is_array();
  if (!known)
    return absl::InvalidArgumentError(absl::StrCat(path, ": no parameters that 'lathe plan' writes"));
  return read;
}

bool is_entry(const Json& e) {
  return e.is_object() && e.size() == 5 && e.contains("step") && e["step"].is_number_unsigned() &&
         e.contains("rows") && e["rows"].is_number_unsigned() && e["rows"] >= 1 && e["rows"] <= INT32_MAX &&
         e.contains("class") && e.contains("config") && e.contains("splits") &&
         e["splits"].is_number_unsigned();
}

// The rank of the candidate that the entry asks for; 0: there is none.
int32_t rank_of(const Json& plan, const Json& entry) {
  for (const Json& candidate : plan.at("candidates"))
    if (candidate.at("legal") == true && candidate.at("config") == entry["config"] &&
        candidate.at("splits") == entry["splits"])
      return candidate.at("rank").get<int32_t>();
  return 0;
}

// Whether every step that has a kernel has an entry.
absl::Status check_all_listed(lathe_device* device, const Json& program, const std::string& path,
                              const std::map<std::pair<size_t, int64_t>, size_t>& entries) {
  absl::StatusOr<std::vector<PayloadStep>> steps = payload_steps(program, 1);
  if (!steps.ok()) return steps.status();
  for (size_t i = 0; i < steps->size(); ++i) {
    const auto listed = entries.lower_bound({i, 0});
    if (listed != entries.end() && listed->first.first == i) continue;
    absl::StatusOr<Json> plan = explain_step(device, (*steps)[i]);
    if (!plan.ok()) return plan.status();
    if (plan->contains("config"))
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": no entry is of step ", i, ", at ", (*steps)[i].location));
  }
  return absl::OkStatus();
}

// The rows that a step is planned for: where they are open the upper ends of its classes with 1 to `rows`.
absl::StatusOr<std::vector<int64_t>> rows_of(lathe_device* device, const PayloadStep& step, int64_t rows) {
  if (!needs_weight(step)) return std::vector<int64_t>{rows};
  absl::StatusOr<Manifest> manifest = make_manifest();
  if (!manifest.ok()) return manifest.status();
  if (absl::Status s = add_weight(step, rows, manifest->get()); !s.ok()) return s;
  std::vector<Text> classes;
  if (absl::Status s = check(lathe_manifest_classes(device, manifest->get(), collect_text, &classes));
      !s.ok())
    return s;
  std::vector<int64_t> ends;
  for (const Text& text : classes) {
    absl::StatusOr<Json> json = parse_json({text}, "a class");
    if (!json.ok()) return json.status();
    ends.push_back(std::min(rows, json->at("m_hi").get<int64_t>()));
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

}  // namespace

absl::StatusOr<Json> explain_step(lathe_device* device, const PayloadStep& step) {
  if (is_on_host(step)) return Json::object();
  absl::StatusOr<Plan> plan = plan_of(device, step);
  if (!plan.ok()) return plan.status();
  return explain(plan->get());
}

absl::StatusOr<std::vector<PayloadStep>> asked_steps(const Json& program, const StepsAsked& asked) {
  absl::StatusOr<std::vector<PayloadStep>> steps = payload_steps(program, asked.rows);
  if (steps.ok()) tune_products(asked.tuning, &*steps);
  return steps;
}

absl::Status add_steps(lathe_device* device, const Json& program, const StepsAsked& asked,
                       lathe_manifest* manifest) {
  absl::StatusOr<std::vector<PayloadStep>> steps = asked_steps(program, asked);
  if (!steps.ok()) return steps.status();
  for (const PayloadStep& step : *steps) {
    absl::Status added;
    if (needs_weight(step)) {
      added = add_weight(step, asked.rows, manifest);
    } else {
      absl::StatusOr<Json> plan = explain_step(device, step);
      if (!plan.ok()) return plan.status();
      const bool product = !std::holds_alternative<lathe_argmax_desc>(step.desc) &&
                           !std::holds_alternative<Elementwise>(step.desc);
      const lathe_tuning tuning = product ? asked.tuning : lathe_tuning(LATHE_TUNING_INIT);
      if (plan->contains("config"))
        added = add_class(manifest_entry(plan->at("class"), step, tuning), manifest);
    }
    if (!added.ok()) return added;
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> make_params(lathe_device* device, const Json& program, const StepsAsked& asked) {
  absl::StatusOr<std::vector<PayloadStep>> steps = asked_steps(program, asked);
  if (!steps.ok()) return steps.status();
  Json entries = Json::array();
  for (size_t i = 0; i < steps->size(); ++i) {
    absl::StatusOr<std::vector<int64_t>> planned = rows_of(device, (*steps)[i], asked.rows);
    if (!planned.ok()) return planned.status();
    for (int64_t m : *planned) {
      const StepsAsked at_m = {m, asked.tuning};
      absl::StatusOr<std::vector<PayloadStep>> bound = asked_steps(program, at_m);
      if (!bound.ok()) return bound.status();
      absl::StatusOr<Json> plan = explain_step(device, (*bound)[i]);
      if (!plan.ok()) return plan.status();
      if (plan->contains("config")) entries.push_back(entry_of(*plan, i, m));
    }
  }
  return Json({{"lathe_params", 1}, {"entries", entries}});
}

absl::StatusOr<bool> lists_entries(const std::string& path) {
  absl::StatusOr<Json> params = read_params(path);
  if (!params.ok()) return params.status();
  return params->contains("entries");
}

absl::StatusOr<std::vector<std::string>> add_params(lathe_device* device, const Json& program,
                                                    const std::string& path, lathe_manifest* manifest) {
  std::vector<std::string> told;
  absl::StatusOr<Json> params = read_params(path);
  if (!params.ok()) return params.status();
  const Json& entries = params->at("entries");
  std::map<std::pair<size_t, int64_t>, size_t> first;  // the entry of a step with so many rows
  for (size_t i = 0; i < entries.size(); ++i) {
    const Json& entry = entries[i];
    const auto error = [&](const std::string& why) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": entry ", i, ": ", why));
    };
    if (!is_entry(entry)) return error("its fields are step, rows, class, config and splits");
    StepsAsked asked;
    asked.rows = entry["rows"].get<int64_t>();
    const auto [at, fresh] = first.try_emplace({entry["step"].get<size_t>(), asked.rows}, i);
    if (!fresh) return error(absl::StrCat("step and rows of entry ", at->second, " again"));
    absl::StatusOr<std::vector<PayloadStep>> steps = payload_steps(program, asked.rows);
    if (!steps.ok()) return steps.status();
    if (entry["step"] >= steps->size())
      return error(absl::StrCat("step ", entry["step"].get<size_t>(), " of a payload of ", steps->size()));
    const PayloadStep& step = (*steps)[entry["step"].get<size_t>()];
    absl::StatusOr<Json> plan = explain_step(device, step);
    if (!plan.ok()) return plan.status();
    if (!plan->contains("class") || plan->at("class") != entry["class"])
      return error(absl::StrCat("another class than that of ", step.location));
    asked.tuning.candidate = plan->contains("config") ? rank_of(*plan, entry) : 0;
    if (asked.tuning.candidate == 0 && entry["splits"] <= kMostSplits) {
      // Splits that the oracle does not come to by itself.
      asked.tuning.split_k = entry["splits"].get<int32_t>();
      tune_products(asked.tuning, &*steps);
      plan = explain_step(device, step);
      if (plan.ok() && plan->contains("config")) asked.tuning.candidate = rank_of(*plan, entry);
    }
    if (asked.tuning.candidate == 0)
      return error(absl::StrCat("no candidate of ", step.location, " on this device has that config"));
    const Json line = manifest_entry(entry["class"], step, asked.tuning);
    if (absl::Status s = add_class(line, manifest); !s.ok()) return s;
    told.push_back(absl::StrCat(step.location, "  ", step_line(step), "\n  ",
                                config_line(entry["config"], entry["splits"].get<int64_t>())));
  }
  if (absl::Status s = check_all_listed(device, program, path, first); !s.ok()) return s;
  return told;
}

}  // namespace lathe::cli
