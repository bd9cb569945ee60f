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

// Whether the step covers several classes, one for each bucket of its open rows.
bool needs_weight(const PayloadStep& step) { return step.open_rows && is_product(step); }

absl::Status add_weight(const PayloadStep& step, int64_t rows, lathe_manifest* manifest) {
  const char* name = step.location.c_str();
  if (const auto* d = std::get_if<lathe_matmul_desc>(&step.desc))
    return check(lathe_manifest_add_matmul(manifest, name, d, rows));
  return check(
      lathe_manifest_add_matmul_argmax(manifest, name, &std::get<lathe_matmul_argmax_desc>(step.desc), rows));
}

// A manifest entry for a class in lathe_explain's JSON.
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

// Whether the JSON is an object whose members are all strings.
bool is_target(const Json& target) {
  return target.is_object() &&
         std::all_of(target.begin(), target.end(), [](const Json& field) { return field.is_string(); });
}

absl::StatusOr<Json> read_params(const std::string& path) {
  absl::StatusOr<Json> read = read_json_file(path);
  if (!read.ok()) return read.status();
  Json& json = *read;
  const size_t parts = json.is_object() ? json.count("entries") + json.count("parameters") : 0;
  const bool known = parts > 0 && json.value("lathe_params", Json()) == 1 &&
                     json.size() == 1 + parts + json.count("target") &&
                     json.value("entries", Json::array()).is_array() &&
                     is_target(json.value("target", Json::object()));
  if (!known)
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not a parameter file as 'lathe plan --out' writes it"));
  return read;
}

bool is_entry(const Json& e) {
  return e.is_object() && e.size() == 5 && e.contains("step") && e["step"].is_number_unsigned() &&
         e.contains("rows") && e["rows"].is_number_unsigned() && e["rows"] >= 1 && e["rows"] <= INT32_MAX &&
         e.contains("class") && e.contains("config") && e.contains("splits") &&
         e["splits"].is_number_unsigned();
}

// The rank of the candidate with the entry's config and splits; 0: there is none.
int32_t rank_of(const Json& plan, const Json& entry) {
  for (const Json& candidate : plan.at("candidates"))
    if (candidate.at("legal") == true && candidate.at("config") == entry["config"] &&
        candidate.at("splits") == entry["splits"])
      return candidate.at("rank").get<int32_t>();
  return 0;
}

absl::Status check_target(const Json& params, const Json& plan, const std::string& path) {
  if (!params.contains("target") || !plan.contains("target") || params["target"] == plan["target"])
    return absl::OkStatus();
  const auto named = [](const Json& target) {
    return absl::StrCat(target.value("backend", "?"), " ", target.value("arch", "?"), " ",
                        target.value("features", ""));
  };
  return absl::InvalidArgumentError(absl::StrCat(path, ": the file is for ", named(params["target"]),
                                                 ", but this device is ", named(plan["target"])));
}

// The tuning with which the step gets the entry's candidate. `plan` explains the step. kInvalidArgument: there is no
// such candidate.
absl::StatusOr<lathe_tuning> tuning_of(lathe_device* device, PayloadStep step, const Json& plan,
                                       const Json& entry) {
  lathe_tuning tuning = LATHE_TUNING_INIT;
  if (plan.contains("config")) tuning.candidate = rank_of(plan, entry);
  if (tuning.candidate == 0 && entry["splits"] <= kMostSplits && is_product(step)) {
    // The oracle may not consider this number of splits by itself.
    tuning.split_k = entry["splits"].get<int32_t>();
    tune_step(tuning, &step);
    const absl::StatusOr<Json> split = explain_step(device, step);
    if (split.ok() && split->contains("config")) tuning.candidate = rank_of(*split, entry);
  }
  if (tuning.candidate == 0)
    return absl::InvalidArgumentError(
        absl::StrCat("no candidate of the step at ", step.location, " has this config on this device"));
  return tuning;
}

// An error if a step that has a kernel has no entry.
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
          absl::StrCat(path, ": there is no entry for step ", i, ", at ", (*steps)[i].location));
  }
  return absl::OkStatus();
}

// The numbers of rows to plan a step for. If they are open: the upper end of each class with 1 to `rows` rows.
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
  std::vector<Text> pieces;
  lathe_status status = LATHE_OK;
  if (is_on_host(step)) return Json::object();
  if (const auto* d = std::get_if<lathe_matmul_desc>(&step.desc))
    status = lathe_explain_matmul(device, d, collect_text, &pieces);
  if (const auto* d = std::get_if<lathe_argmax_desc>(&step.desc))
    status = lathe_explain_argmax(device, d, collect_text, &pieces);
  if (const auto* d = std::get_if<lathe_matmul_argmax_desc>(&step.desc))
    status = lathe_explain_matmul_argmax(device, d, collect_text, &pieces);
  if (const auto* d = std::get_if<Elementwise>(&step.desc))
    status = lathe_explain_elementwise(device, &d->desc, collect_text, &pieces);
  if (absl::Status s = check(status); !s.ok())
    return absl::Status(s.code(), absl::StrCat(step.location, ": ", s.message()));
  return parse_json(pieces, "explain");
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
      const lathe_tuning tuning = is_product(step) ? asked.tuning : lathe_tuning(LATHE_TUNING_INIT);
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
  Json entries = Json::array(), target;
  for (size_t i = 0; i < steps->size(); ++i) {
    absl::StatusOr<std::vector<int64_t>> planned = rows_of(device, (*steps)[i], asked.rows);
    if (!planned.ok()) return planned.status();
    for (int64_t m : *planned) {
      const StepsAsked at_m = {m, asked.tuning};
      absl::StatusOr<std::vector<PayloadStep>> bound = asked_steps(program, at_m);
      if (!bound.ok()) return bound.status();
      absl::StatusOr<Json> plan = explain_step(device, (*bound)[i]);
      if (!plan.ok()) return plan.status();
      if (!plan->contains("config")) continue;
      entries.push_back(entry_of(*plan, i, m));
      target = plan->at("target");
    }
  }
  Json params = {{"lathe_params", 1}, {"entries", entries}};
  if (!target.is_null()) params["target"] = target;
  return params;
}

absl::StatusOr<bool> lists_entries(const std::string& path) {
  absl::StatusOr<Json> params = read_params(path);
  if (!params.ok()) return params.status();
  return params->contains("entries");
}

absl::Status refuse_entries(const Arguments& arguments) {
  const std::string path = arguments.text("params", "");
  if (!arguments.has("params")) return absl::OkStatus();
  absl::StatusOr<bool> listed = lists_entries(path);
  if (!listed.ok() || !*listed) return listed.status();
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": the entries are for the steps of a payload; use 'lathe compile' or 'lathe kernel-bench'"));
}

absl::StatusOr<std::vector<std::string>> add_params(lathe_device* device, const Json& program,
                                                    const std::string& path, lathe_manifest* manifest) {
  std::vector<std::string> told;
  absl::StatusOr<Json> params = read_params(path);
  if (!params.ok()) return params.status();
  const Json& entries = params->at("entries");
  std::map<std::pair<size_t, int64_t>, size_t> first;  // step and rows -> its entry
  for (size_t i = 0; i < entries.size(); ++i) {
    const Json& entry = entries[i];
    const auto error = [&](const std::string& why) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": entry ", i, ": ", why));
    };
    if (!is_entry(entry)) return error("the fields must be step, rows, class, config and splits");
    const auto rows = entry["rows"].get<int64_t>();
    const auto [at, fresh] = first.try_emplace({entry["step"].get<size_t>(), rows}, i);
    if (!fresh) return error(absl::StrCat("entry ", at->second, " has the same step and rows"));
    absl::StatusOr<std::vector<PayloadStep>> steps = payload_steps(program, rows);
    if (!steps.ok()) return steps.status();
    if (entry["step"] >= steps->size())
      return error(absl::StrCat("step ", entry["step"].get<size_t>(), " does not exist; the payload has ",
                                steps->size(), " steps"));
    const PayloadStep& step = (*steps)[entry["step"].get<size_t>()];
    absl::StatusOr<Json> plan = explain_step(device, step);
    if (!plan.ok()) return plan.status();
    if (absl::Status of = check_target(*params, *plan, path); !of.ok()) return of;
    if (!plan->contains("class") || plan->at("class") != entry["class"])
      return error(absl::StrCat("the class differs from that of the step at ", step.location));
    const absl::StatusOr<lathe_tuning> tuning = tuning_of(device, step, *plan, entry);
    if (!tuning.ok()) return error(std::string(tuning.status().message()));
    const Json line = manifest_entry(entry["class"], step, *tuning);
    if (absl::Status s = add_class(line, manifest); !s.ok()) return s;
    told.push_back(absl::StrCat(step.location, "  ", step_line(step), "\n  ",
                                config_line(entry["config"], entry["splits"].get<int64_t>())));
  }
  if (absl::Status s = check_all_listed(device, program, path, first); !s.ok()) return s;
  return told;
}

absl::StatusOr<std::vector<lathe_tuning>> listed_tunings(lathe_device* device, const Json& program,
                                                         const std::string& path, int64_t rows) {
  absl::StatusOr<Json> params = read_params(path);
  if (!params.ok()) return params.status();
  absl::StatusOr<std::vector<PayloadStep>> steps = payload_steps(program, rows);
  if (!steps.ok()) return steps.status();
  std::vector<lathe_tuning> tunings;
  for (size_t i = 0; i < steps->size(); ++i) {
    const PayloadStep& step = (*steps)[i];
    absl::StatusOr<Json> plan = explain_step(device, step);
    if (!plan.ok()) return plan.status();
    if (absl::Status s = check_target(*params, *plan, path); !s.ok()) return s;
    tunings.push_back(LATHE_TUNING_INIT);
    if (!plan->contains("config")) continue;
    const Json& entries = params->at("entries");
    const auto entry = std::find_if(entries.begin(), entries.end(), [&](const Json& e) {
      return is_entry(e) && e["step"] == i && e["class"] == plan->at("class");
    });
    if (entry == entries.end())
      return absl::InvalidArgumentError(absl::StrCat(path, ": there is no entry for step ", i, " with ", rows,
                                                     " open rows, at ", step.location));
    const absl::StatusOr<lathe_tuning> tuning = tuning_of(device, step, *plan, *entry);
    if (!tuning.ok())
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": entry ", entry - entries.begin(), ": ", tuning.status().message()));
    tunings.back() = *tuning;
  }
  return tunings;
}

}  // namespace lathe::cli
