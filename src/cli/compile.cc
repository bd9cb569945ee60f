#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/payload_steps.h"
#include "cli/plan_text.h"
#include "cli/verbs.h"
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
  if (absl::Status s = check(status); !s.ok())
    return absl::Status(s.code(), absl::StrCat(step.location, ": ", s.message()));
  return Plan(made);
}

// What the step's requests can ask for: its one class, or where its rows are open every class with that many
// rows.
absl::Status add_step(const PayloadStep& step, int64_t rows, const Json& plan, lathe_manifest* manifest) {
  const char* name = step.location.c_str();
  if (!step.open_rows || std::holds_alternative<lathe_argmax_desc>(step.desc)) {
    Json entry = plan.at("class");
    entry.erase("generic");
    entry["name"] = name;
    const std::string text = Json({{"lathe_manifest", 1}, {"classes", Json::array({entry})}}).dump();
    return check(lathe_manifest_parse(manifest, text.data(), text.size()));
  }
  if (const auto* d = std::get_if<lathe_matmul_desc>(&step.desc))
    return check(lathe_manifest_add_matmul(manifest, name, d, rows));
  return check(
      lathe_manifest_add_matmul_argmax(manifest, name, &std::get<lathe_matmul_argmax_desc>(step.desc), rows));
}

absl::Status compile(const Arguments& arguments) {
  absl::StatusOr<int64_t> rows = arguments.integer("m-max", 8192, 1, INT32_MAX);
  if (!rows.ok()) return rows.status();
  absl::StatusOr<Opened> opened = open(arguments);
  if (!opened.ok()) return opened.status();
  absl::StatusOr<Json> program = inspect_payload(opened->context.get(), arguments.words[0]);
  if (!program.ok()) return program.status();
  if (arguments.has("json")) {
    std::puts(program->dump(2).c_str());
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<PayloadStep>> steps = payload_steps(*program, *rows);
  if (!steps.ok()) return steps.status();
  absl::StatusOr<Manifest> manifest = make_manifest();
  if (!manifest.ok()) return manifest.status();
  for (const PayloadStep& step : *steps) {
    absl::StatusOr<Plan> plan = plan_of(opened->device.get(), step);
    if (!plan.ok()) return plan.status();
    absl::StatusOr<Json> json = explain(plan->get());
    if (!json.ok()) return json.status();
    absl::PrintF("%s  @%s  %s\n", step.location, step.function, step_line(step));
    if (!json->contains("predicted_seconds")) {
      absl::PrintF("  needs no kernel\n");
      continue;
    }
    absl::PrintF("  %s, predicted %s%s\n", choice_line(*json),
                 duration(json->value("predicted_seconds", 0.0)),
                 step.open_rows ? absl::StrCat(" with ", *rows, " rows") : "");
    if (absl::Status s = add_step(step, *rows, *json, manifest->get()); !s.ok()) return s;
  }
  return warm_manifest(arguments, *opened, manifest->get());
}

}  // namespace

Verb compile_verb() {
  std::vector<Flag> flags = warm_flags();
  flags.push_back(
      {"m-max", "M", "where the payload leaves the rows open: prepare for 1 to this (default: 8192)"});
  flags.push_back({"json", nullptr, "print the program that was read, and compile nothing"});
  return {"compile",
          "PAYLOAD.MLIR",
          1,
          "compile what a module of linalg on tensors asks for; what is not understood is refused, with its "
          "place",
          flags,
          {"lathe compile payload.mlir", "lathe compile payload.mlir --target sm_90a --facts h200"},
          compile};
}

}  // namespace lathe::cli
