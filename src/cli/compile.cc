#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/files.h"
#include "cli/params.h"
#include "cli/plan_text.h"
#include "cli/request_flags.h"
#include "cli/verbs.h"
#include "cli/warm_manifest.h"

namespace lathe::cli {
namespace {

constexpr Flag kMMax = {"m-max", "M",
                        "largest number of rows where the payload leaves it open (default: 8192)"};

// The common first part of both verbs.
struct Read {
  Opened opened;
  Json program;
  StepsAsked asked;
};

bool has_product(const Json& program) {
  for (const Json& function : program.at("functions"))
    for (const Json& step : function.at("steps"))
      if (step.at("op") == "matmul" || step.at("op") == "matmul_argmax") return true;
  return false;
}

absl::StatusOr<Read> read(const Arguments& arguments) {
  StepsAsked asked;
  asked.rows = 8192;
  const absl::Status flags =
      first_error({read_integer(arguments, "m-max", 1, INT32_MAX, &asked.rows),
                   read_integer(arguments, "split-k", 1, kMostSplits, &asked.tuning.split_k)});
  if (!flags.ok()) return flags;
  absl::StatusOr<Opened> opened = open(arguments);
  if (!opened.ok()) return opened.status();
  absl::StatusOr<Json> program = inspect_payload(opened->context.get(), arguments.words[0]);
  if (!program.ok()) return program.status();
  if (asked.tuning.split_k > 0 && !has_product(*program))
    return absl::InvalidArgumentError(
        absl::StrCat("--split-k has no effect: no step of ", arguments.words[0], " is a matmul"));
  if (arguments.has("m-max")) {
    absl::StatusOr<std::vector<PayloadStep>> steps = payload_steps(*program, 1);
    if (!steps.ok()) return steps.status();
    if (std::none_of(steps->begin(), steps->end(), [](const PayloadStep& s) { return s.open_rows; }))
      return absl::InvalidArgumentError(
          absl::StrCat("--m-max has no effect: no step of ", arguments.words[0], " has open rows"));
  }
  return Read{*std::move(opened), *std::move(program), asked};
}

// Prints each step, and the oracle's choice for it. Open rows count as the largest number asked for.
absl::Status print_steps(const Read& read) {
  absl::StatusOr<std::vector<PayloadStep>> steps = asked_steps(read.program, read.asked);
  if (!steps.ok()) return steps.status();
  for (const PayloadStep& step : *steps) {
    absl::StatusOr<Json> plan = explain_step(read.opened.device.get(), step);
    if (!plan.ok()) return plan.status();
    absl::PrintF("%s  @%s  %s\n", step.location, step.function, step_line(step));
    if (!plan->contains("predicted_seconds")) {
      if (is_on_host(step))
        absl::PrintF(
            "  no kernel: 'lathe kernel-bench' evaluates this step on the host, an engine must compute it "
            "itself\n");
      else
        absl::PrintF("  nothing to do\n");
      continue;
    }
    absl::PrintF("  %s, predicted %s%s\n", choice_line(*plan), prediction(*plan),
                 step.open_rows ? absl::StrCat(" (", read.asked.rows, " rows)") : "");
  }
  return absl::OkStatus();
}

absl::Status compile(const Arguments& arguments) {
  absl::StatusOr<Read> payload = read(arguments);
  if (!payload.ok()) return payload.status();
  if (arguments.has("json")) {
    std::puts(payload->program.dump(2).c_str());
    return absl::OkStatus();
  }
  lathe_device* device = payload->opened.device.get();
  absl::StatusOr<Manifest> manifest = make_manifest();
  if (!manifest.ok()) return manifest.status();
  absl::StatusOr<bool> listed = false;
  if (arguments.has("params")) listed = lists_entries(arguments.text("params", ""));
  if (!listed.ok()) return listed.status();
  if (!*listed) {
    if (absl::Status s = print_steps(*payload); !s.ok()) return s;
    if (absl::Status s = add_steps(device, payload->program, payload->asked, manifest->get()); !s.ok())
      return s;
    return warm_manifest(arguments, payload->opened, manifest->get());
  }
  for (const char* flag : {"m-max", "split-k"})
    if (arguments.has(flag))
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag, " cannot be used with --params: its entries give rows and splits"));
  absl::StatusOr<std::vector<std::string>> added =
      add_params(device, payload->program, arguments.text("params", ""), manifest->get());
  if (!added.ok()) return added.status();
  for (const std::string& entry : *added) std::puts(entry.c_str());
  return warm_manifest(arguments, payload->opened, manifest->get());
}

absl::Status plan(const Arguments& arguments) {
  absl::StatusOr<Read> payload = read(arguments);
  if (!payload.ok()) return payload.status();
  if (absl::Status s = print_steps(*payload); !s.ok()) return s;
  if (!arguments.has("out")) return absl::OkStatus();
  absl::StatusOr<Json> params = make_params(payload->opened.device.get(), payload->program, payload->asked);
  if (!params.ok()) return params.status();
  const std::string path = arguments.text("out", "");
  if (absl::Status s = write_file(path, params->dump(1) + "\n"); !s.ok()) return s;
  absl::PrintF("%d entries in %s\n", params->at("entries").size(), path);
  return absl::OkStatus();
}

}  // namespace

Verb compile_verb() {
  std::vector<Flag> flags = warm_flags();
  flags.insert(flags.end(), {kMMax, kProductsSplitK});
  flags.push_back({"params", "FILE",
                   "compile exactly the choices in this file from 'lathe plan --out'; its \"parameters\" set "
                   "the params.NAME of the pipelines"});
  flags.push_back(pipeline_flag());
  flags.push_back({"json", nullptr, "print the steps of the payload as JSON, and compile nothing"});
  return {
      "compile", "PAYLOAD.MLIR",
      1,         "compile the kernels for an MLIR module (linalg on tensors); errors give line and column",
      flags,     {"lathe compile payload.mlir", "lathe compile payload.mlir --target sm_90a --facts h200"},
      compile};
}

Verb plan_verb() {
  return {"plan",
          "PAYLOAD.MLIR",
          1,
          "print the oracle's choices for an MLIR module (linalg on tensors); 'lathe compile --params' takes "
          "them",
          {kMMax,
           kProductsSplitK,
           {"out", "FILE", "write the choices to this JSON file, one for each class"},
           facts_flag(),
           target_flag(),
           device_flag()},
          {"lathe plan payload.mlir --facts h200 --out params.json"},
          plan};
}

}  // namespace lathe::cli
