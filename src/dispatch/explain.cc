// lathe_plan_explain (the choice and all candidates as JSON) and lathe_plan_dump (the IR of each stage).
#include "absl/strings/str_cat.h"
#include "core/json_object.h"
#include "dispatch/class_on_device.h"
#include "dispatch/externals.h"
#include "dispatch/plan.h"
#include "dispatch/plan_records.h"

namespace lathe {
namespace {

// The predicted seconds of a launch.
double predicted_seconds(const lathe_plan& planned, const Plan& plan) {
  const Request& request = planned.planned;
  if (planned.device.is_cpu || !is_grouped(request.key.problem.rows)) return plan.predicted_seconds;
  return seconds_of_groups(plan, request.dims, planned.device.facts);
}

Json candidate_json(const lathe_plan& planned, const RankedPlan& ranked, size_t index,
                    const std::optional<PlanRecord>& tuning) {
  const Plan& plan = ranked.plan;
  Json json = json_object("rank", index + 1, "legal", ranked.rejection.empty(), "config",
                          to_json(plan.config), "splits", plan.launch.splits);
  if (ranked.rejection.empty()) {
    json["predicted_seconds"] = predicted_seconds(planned, plan);
    json["numeric_recipe"] = plan.numeric_recipe;
  } else {
    json["rejection"] = ranked.rejection;
    // A candidate that only the policy rejects still has a prediction, and may have been measured.
    if (plan.predicted_seconds > 0) json["predicted_seconds"] = predicted_seconds(planned, plan);
  }
  if (!ranked.price.empty()) {
    Json work = json_object();
    for (const PricePart& part : ranked.price) work[part.name] = part.count;
    json["work"] = std::move(work);
  }
  if (tuning)
    for (const MeasuredCandidate& m : tuning->measured)
      if (m.splits == plan.launch.splits && m.config == plan.config)
        json["measured_seconds"] = m.measured_seconds;
  return json;
}

Json external_json(const lathe_plan& plan) {
  const ExternalChoice choice = external_choice(plan.device, plan.planned.key);
  Json found = Json::array();  // with kOff no library is opened
  if (choice.use != ExternalUse::kOff)
    for (const ExternalFound& f : find_externals(plan.device))
      found.push_back(
          json_object("library", std::string(name_of(f.id)), "version", f.version, "absent", f.absent));
  return json_object("use", std::string(name_of(choice.use)), "library", std::string(name_of(choice.which)),
                     "found", std::move(found));
}

absl::StatusOr<Choice> choice_in(const lathe_plan& plan) {
  if (plan.choice != nullptr) return *plan.choice;
  absl::StatusOr<Choice> choice = choice_of(plan.device, *plan.entry);
  if (choice.ok()) return choice;
  return in_request(describe(plan.planned), plan.device.name, choice.status());
}

Json launch_json(const lathe_plan& plan, const Choice& choice) {
  Json json = json_object("wanted_splits", choice.plan().launch.splits);
  if (plan.entry == nullptr) return json;  // no kernel is loaded, so there is no recipe
  const absl::StatusOr<LaunchConfig> launch = planned_launch(plan);
  if (!launch.ok()) return json;
  json["splits"] = launch->splits;
  json["k_chunk"] = launch->k_chunk;
  json["workspace_bytes"] = launch->workspace_bytes;
  json["scratch_bytes_per_worker"] = launch->scratch_bytes_per_worker;
  return json;
}

}  // namespace

absl::StatusOr<Json> explain_json(const lathe_plan& plan) {
  const lathe_device& device = plan.device;
  const Dims& dims = plan.planned.dims;
  Json json = json_object("request", describe(plan.planned, device.name), "device", device.name, "class",
                          to_json(plan.planned.key.problem), "dims",
                          json_object("m", dims.m, "n", dims.n, "k", dims.k, "batch", dims.batch), "facts",
                          to_json(device.facts), "target", to_json(device.facts.target), "workers",
                          device.workers, "codegen_id", codegen_for(device, plan.planned.key.problem),
                          "candidates", Json(Json::value_t::array), "legal", 0);
  if (!plan.needs_kernel()) return json;
  LATHE_ASSIGN_OR_RETURN(const Choice choice, choice_in(plan));
  json["rank"] = choice.rank + 1;
  json["config"] = to_json(choice.plan().config);
  json["fields"] = describe_fields(choice.plan().config);
  json["launch"] = launch_json(plan, choice);
  json["key"] = json_object("fingerprint", choice.key.fingerprint, "text", choice.key.text);
  json["numeric_recipe"] = choice.plan().numeric_recipe;
  json["predicted_seconds"] = predicted_seconds(plan, choice.plan());
  json["legal"] = choice.answer.legal;
  json["external"] = external_json(plan);
  json["chosen_by"] = std::string(name_of(choice.by));
  const std::optional<PlanRecord> tuning = find_tuning(device, plan.planned.key.problem);
  Json candidates = json_array();
  for (size_t i = 0; i < choice.answer.ranked.size(); ++i)
    candidates.push_back(candidate_json(plan, choice.answer.ranked[i], i, tuning));
  json["candidates"] = std::move(candidates);
  return json;
}

absl::Status dump_plan(const lathe_plan& plan, absl::string_view pipeline_yaml, StageSink stages) {
  if (!plan.needs_kernel()) {
    return absl::InvalidArgumentError(
        absl::StrCat(describe(plan.planned, plan.device.name), ": it needs no kernel, so there is no IR"));
  }
  LATHE_ASSIGN_OR_RETURN(const Choice choice, choice_in(plan));
  const CompileConfig& config = choice.plan().config;
  const std::string bitcode = plan.device.context.ukernels.bitcode_of(config.ukernel);
  LATHE_ASSIGN_OR_RETURN(const auto program, program_for(plan.device, plan.planned.key.problem));
  const CompileRequest request = {plan.planned.key.problem,
                                  config,
                                  plan.device.facts.target,
                                  plan.device.assembler(),
                                  pipeline_for(plan.device, plan.planned.key.problem, config),
                                  bitcode,
                                  program == nullptr ? absl::string_view() : program->text};
  // The caller's text can crash its reader, so another process reads it.
  lathe_context& context = plan.device.context;
  Compiler& compiler = pipeline_yaml.empty() ? *context.compiler : context.readers;
  const absl::Status status = compiler.dump(request, pipeline_yaml, stages);
  if (status.ok()) return status;
  return in_request(describe(plan.planned), plan.device.name, status);
}

}  // namespace lathe
