// lathe tune ...: measures the best candidates and records the fastest.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/classes_file.h"
#include "cli/ops.h"
#include "cli/plan_text.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "cli/warm_bar.h"
#include "cli/warm_manifest.h"

namespace lathe::cli {
namespace {

using Tune = absl::FunctionRef<absl::Status(const lathe_tune_options& options, lathe_tune_report* report)>;

std::vector<Flag> tune_flags() {
  return {device_flag(),
          {"output", "FILE", "also add the records to this file, which other ranks can take with --tuning"},
          {"top", "N",
           "number of candidates to measure per class, best rank first; the best of each kind is added "
           "(default: 8)"},
          {"time", "MS", "milliseconds for each candidate (default: 50)"},
          {"deadline", "SECONDS", "start no class after this many seconds"},
          {"json", nullptr, "print the records as JSON"},
          facts_flag(),
          target_flag()};
}

// Opens the device. Refuses --facts and --target, because a described device cannot be measured.
absl::StatusOr<Opened> open_to_measure(const Arguments& arguments) {
  if (names_described_device(arguments))
    return absl::InvalidArgumentError(
        absl::StrCat("--", arguments.has("facts") ? "facts" : "target",
                     ": a described device cannot be measured; tune on a machine that has it, and copy the "
                     "file that --output writes"));
  return open(arguments);
}

// The table of one class: its candidates by rank, with the winner marked.
std::string table_of(const std::string& request, const Json& record) {
  std::string out = absl::StrCat(request, "\n     predicted   measured   ratio\n");
  const Json measured = record.value("measured", Json::array());
  const double first = measured.empty() ? 0 : measured[0].value("measured_seconds", 0.0);
  for (const Json& m : measured) {
    const double seconds = m.value("measured_seconds", 0.0);
    const Json config = m.value("config", Json::object());
    const int64_t splits = m.value("splits", int64_t{1});
    const bool wins =
        config == record.value("config", Json()) && splits == record.value("splits", int64_t{1});
    absl::StrAppend(&out, absl::StrFormat("  %s  %9s  %9s  %6.3f  %s\n", wins ? "*" : " ",
                                          duration(m.value("predicted_seconds", 0.0)), duration(seconds),
                                          first > 0 ? seconds / first : 0, config_line(config, splits)));
  }
  return out;
}

absl::StatusOr<std::string> kept_in(const Opened& opened, const std::string& output) {
  std::vector<Text> pieces;
  if (absl::Status s = check(lathe_cache_list(opened.context.get(), collect_text, &pieces)); !s.ok())
    return s;
  absl::StatusOr<Json> list = parse_json(pieces, "cache");
  if (!list.ok()) return list.status();
  const std::string directory = list->value("directory", "");
  if (directory.empty() && output.empty()) return std::string("not stored");
  return absl::StrCat("stored in ", directory, directory.empty() || output.empty() ? "" : " and ", output);
}

absl::Status print_records(const Arguments& arguments, const std::vector<Text>& records) {
  Json all = Json::array();
  for (const Text& text : records) {
    absl::StatusOr<Json> record = parse_json({text}, "record");
    if (!record.ok()) return record.status();
    if (arguments.has("json"))
      all.push_back(*record);
    else
      std::printf("%s\n", table_of(text.name, *record).c_str());
  }
  if (arguments.has("json")) std::puts(all.dump(2).c_str());
  return absl::OkStatus();
}

absl::Status run_tuning(const Arguments& arguments, const Opened& opened, Tune tune) {
  lathe_tune_options options = LATHE_TUNE_OPTIONS_INIT;
  absl::StatusOr<int64_t> top = arguments.integer("top", 0, 1, 4096);
  if (!top.ok()) return top.status();
  absl::StatusOr<int64_t> milliseconds = arguments.integer("time", 0, 1, 1000000);
  if (!milliseconds.ok()) return milliseconds.status();
  absl::StatusOr<int64_t> deadline = arguments.integer("deadline", 0, 1, 1000000);
  if (!deadline.ok()) return deadline.status();
  options.candidates = static_cast<uint32_t>(*top);
  options.candidate_nanoseconds = static_cast<uint64_t>(*milliseconds) * 1000000u;
  options.run.deadline_nanoseconds = static_cast<uint64_t>(*deadline) * 1000000000u;
  const std::string output = arguments.text("output", "");
  if (arguments.has("output") && output.empty())
    return absl::InvalidArgumentError("--output needs the name of a file");
  if (!output.empty()) options.output = output.c_str();
  std::vector<Text> records;
  options.text = collect_text;
  options.text_user = &records;
  lathe_tune_report report = LATHE_TUNE_REPORT_INIT;
  const absl::Status outcome = run_with_bar(options.run, [&](const lathe_warmup_options& with_bar) {
    options.run = with_bar;
    return tune(options, &report);
  });
  if (absl::Status s = print_records(arguments, records); !s.ok()) return s;
  if (report.classes == 0 || arguments.has("json")) return outcome;
  absl::StatusOr<std::string> kept = std::string("nothing to store");
  if (report.replaced + report.confirmed > 0) kept = kept_in(opened, output);
  if (!kept.ok()) return kept.status();
  absl::PrintF("%d %s: %d replaced, %d confirmed", report.classes, report.classes == 1 ? "class" : "classes",
               report.replaced, report.confirmed);
  if (report.refused > 0) absl::PrintF(", %d not tuned because they are batch_invariant", report.refused);
  if (report.failed > 0) absl::PrintF(", %d failed", report.failed);
  if (report.skipped > 0) absl::PrintF(", %d not started", report.skipped);
  absl::PrintF("; %d candidates, %.1f s; %s\n", report.candidates, report.milliseconds / 1e3, *kept);
  return outcome;
}

absl::Status tune_file(const Arguments& arguments) {
  absl::StatusOr<Opened> opened = open_to_measure(arguments);
  if (!opened.ok()) return opened.status();
  absl::StatusOr<Manifest> manifest = read_classes(arguments, *opened);
  if (!manifest.ok()) return manifest.status();
  return run_tuning(arguments, *opened, [&](const lathe_tune_options& options, lathe_tune_report* report) {
    return check(lathe_tune(opened->device.get(), manifest->get(), &options, report));
  });
}

absl::Status tune_request(const Arguments& arguments, const AnyRequest& request) {
  absl::StatusOr<Opened> opened = open_to_measure(arguments);
  if (!opened.ok()) return opened.status();
  return run_tuning(arguments, *opened, [&](const lathe_tune_options& options, lathe_tune_report* report) {
    return tune(opened->device.get(), request, options, report);
  });
}

}  // namespace

std::vector<Verb> tune_verbs() {
  std::vector<Verb> verbs =
      verbs_of_ops("tune", "measure the best candidates for the class of %s, and record the fastest",
                   tune_flags(), /*runs=*/false, tune_request);
  verbs.push_back(
      {"tune",
       "FILE",
       1,
       "tune every class of a manifest, or of the weights in a CSV file (model,layer,n,k)",
       classes_flags(tune_flags()),
       {"lathe tune llama.json --output tuning.json", "lathe tune shapes.csv --dtype bf16 --m-max 64"},
       tune_file});
  return verbs;
}

}  // namespace lathe::cli
