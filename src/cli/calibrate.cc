// lathe calibrate: measures the facts of the processor and stores them.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/plan_text.h"
#include "cli/session.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

// The value with the unit that the fact's name tells: "16.1 GB/s", "2.87 GHz", "88.9 G/s", "1.02 us", "2".
std::string with_unit(const std::string& fact, double value) {
  if (absl::EndsWith(fact, "bytes_per_second")) return absl::StrFormat("%.4g GB/s", value * 1e-9);
  if (absl::EndsWith(fact, "_per_second")) return absl::StrFormat("%.4g G/s", value * 1e-9);
  if (absl::EndsWith(fact, "_hz")) return absl::StrFormat("%.3g GHz", value * 1e-9);
  if (absl::EndsWith(fact, "_seconds")) return duration(value);
  return absl::StrFormat("%.4g", value);
}

std::string table_of(const Json& result) {
  std::string out =
      absl::StrFormat("%-34s %12s %12s  %s\n", "fact", "measured", "before", "source of before");
  const Json facts = result.value("facts", Json::object()), before = result.value("before", Json::object()),
             absent = result.value("absent", Json::object());
  const auto add = [&](const std::string& name, const std::string& measured) {
    const Json old = before.value(name, Json());
    absl::StrAppend(&out, absl::StrFormat("%-34s %12s %12s  %s\n", name, measured,
                                          old.is_null() ? "-" : with_unit(name, old.value("value", 0.0)),
                                          old.is_null() ? "-" : where_from(old)));
  };
  for (const auto& [name, fact] : facts.items()) add(name, with_unit(name, fact.value("value", 0.0)));
  for (const auto& [name, why] : absent.items()) add(name, "-");
  for (const auto& [name, why] : absent.items())
    absl::StrAppend(&out, "not measured: ", name, ": ", why.get<std::string>(), "\n");
  return out;
}

std::string last_lines(const Json& result, const lathe_calibrate_report& report, bool failed) {
  const auto stored = result.value("stored", std::vector<std::string>());
  const int workers = result.value("workers", 0);
  std::string out = absl::StrFormat("%d facts of %s with %d %s, %.1f s; ", report.facts,
                                    result.value("machine", Json::object()).value("name", "?"), workers,
                                    workers == 1 ? "worker" : "workers", report.milliseconds * 1e-3);
  absl::StrAppend(&out,
                  !stored.empty() ? absl::StrCat("stored in ", absl::StrJoin(stored, " and "))
                  : failed        ? "not stored: see the error below"
                                  : "not stored, because there is no calibration file: set a cache directory "
                                    "or give --output FILE",
                  "\n");
  if (report.unsteady > 0)
    absl::StrAppend(
        &out, report.unsteady, report.unsteady == 1 ? " rate varied" : " rates varied",
        " by more than a quarter: other work disturbed the measurement. Repeat it on an idle machine\n");
  return out;
}

absl::Status calibrate(const Arguments& arguments) {
  if (names_described_device(arguments))
    return absl::InvalidArgumentError(absl::StrCat(
        "--", arguments.has("facts") ? "facts" : "target",
        ": a described device cannot be measured; calibrate on a machine that has it, and copy the file "
        "that --output writes"));
  absl::StatusOr<Context> context = make_context(arguments);
  if (!context.ok()) return context.status();
  lathe_calibrate_options options = LATHE_CALIBRATE_OPTIONS_INIT;
  const std::string device = arguments.text("device", "cpu"), output = arguments.text("output", "");
  if (arguments.has("output") && output.empty())
    return absl::InvalidArgumentError("--output needs the name of a file");
  absl::StatusOr<int64_t> milliseconds = arguments.integer("time", 0, 1, 10000);
  if (!milliseconds.ok()) return milliseconds.status();
  options.device = device.c_str();
  options.nanoseconds = static_cast<uint64_t>(*milliseconds) * 1000000u;
  if (!output.empty()) options.output = output.c_str();
  std::vector<Text> pieces;
  options.text = collect_text;
  options.text_user = &pieces;
  lathe_calibrate_report report = LATHE_CALIBRATE_REPORT_INIT;
  const absl::Status outcome = check(lathe_calibrate(context->get(), &options, &report));
  if (pieces.empty()) return outcome;
  absl::StatusOr<Json> result = parse_json(pieces, "calibration");
  if (!result.ok()) return result.status();
  if (arguments.has("json"))
    std::puts(result->dump(2).c_str());
  else
    absl::PrintF("%s%s", table_of(*result), last_lines(*result, report, !outcome.ok()));
  return outcome;
}

}  // namespace

Verb calibrate_verb() {
  return {
      "calibrate",
      "",
      0,
      "measure the rates of this processor in about six seconds; later commands use them in place of a "
      "table's "
      "values",
      {device_flag(),
       {"output", "FILE", "also add the facts to this file, which other ranks can take with --calibration"},
       {"time", "MS", "milliseconds for everything, at most 10000 (default: 6000)"},
       {"json", nullptr, "print the result as JSON"},
       facts_flag(),
       target_flag()},
      {"lathe calibrate", "lathe calibrate --output calibration.json"},
      calibrate};
}

}  // namespace lathe::cli
