#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/opened_device.h"
#include "cli/params.h"
#include "cli/plan_text.h"
#include "cli/trial.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

struct Measurement {
  double first = 0;             // seconds from the first call to its result
  std::vector<double> repeats;  // seconds per launch, ascending
  int64_t launches = 1;         // launches between two synchronisations
  lathe_statistics before = LATHE_STATISTICS_INIT, after_first = LATHE_STATISTICS_INIT,
                   after_all = LATHE_STATISTICS_INIT;

  bool always_generic() const {
    return after_all.fallback_runs > before.fallback_runs && after_all.dispatch_hits == before.dispatch_hits;
  }
  double median() const { return repeats[repeats.size() / 2]; }
  std::string outcome() const {
    if (after_first.fallback_runs > before.fallback_runs) return "generic kernel";
    if (after_first.compiles > before.compiles) return "compiled";
    if (after_first.disk_hits > before.disk_hits) return "disk hit";
    if (after_first.bundle_hits > before.bundle_hits) return "bundle hit";
    if (after_first.remote_hits > before.remote_hits) return "remote hit";
    if (after_first.memory_hits > before.memory_hits) return "memory hit";
    return after_first.dispatch_hits > before.dispatch_hits ? "dispatch hit" : "no kernel needed";
  }
};

// The seconds that `launches` launches take, with the wait for the last one.
absl::StatusOr<double> time_launches(Trial& trial, const Stream& stream, int64_t launches) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < launches; ++i) {
    if (absl::Status s = check(trial.launch()); !s.ok()) return s;
  }
  if (absl::Status s = stream.synchronize(); !s.ok()) return s;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Waiting for a GPU costs as much as a small kernel, so launches that fill two milliseconds are timed together. A call
// on the CPU returns when it is done.
absl::StatusOr<int64_t> launches_at_once(Trial& trial, const Stream& stream) {
  if (stream.get() == nullptr) return 1;
  auto one = time_launches(trial, stream, 1);
  if (!one.ok()) return one.status();
  return static_cast<int64_t>(std::clamp(2e-3 / *one, 1.0, 1000.0));
}

absl::StatusOr<Measurement> measure(lathe_context* context, int64_t repeats, const Stream& stream,
                                    Trial& trial) {
  Measurement m;
  auto before = statistics(context);
  auto first = time_launches(trial, stream, 1);
  auto after = statistics(context);
  if (!before.ok()) return before.status();
  if (!first.ok()) return first.status();
  if (!after.ok()) return after.status();
  m.first = *first;
  m.before = *before;
  m.after_first = *after;
  auto launches = launches_at_once(trial, stream);
  if (!launches.ok()) return launches.status();
  m.launches = *launches;
  for (int64_t i = 0; i < repeats; ++i) {
    auto seconds = time_launches(trial, stream, m.launches);
    if (!seconds.ok()) return seconds.status();
    m.repeats.push_back(*seconds / static_cast<double>(m.launches));
  }
  auto last = statistics(context);
  if (!last.ok()) return last.status();
  m.after_all = *last;
  std::sort(m.repeats.begin(), m.repeats.end());
  return m;
}

// The report of a run of any op.
struct Report {
  std::string title;
  Measurement time;
  double flops = 0, bytes = 0;
  Json plan;  // null if no plan shows what ran (plan_that_ran)
  reference::CheckResult check;
  uint64_t seed = 0;
};

void print_json(const Report& r) {
  const lathe_statistics& s = r.time.after_first;
  const double median = r.time.median();
  Json out = {{"request", r.title},
              {"first_use_ms", r.time.first * 1e3},
              {"median_ms", median * 1e3},
              {"min_ms", r.time.repeats.front() * 1e3},
              {"max_ms", r.time.repeats.back() * 1e3},
              {"repeats", r.time.repeats.size()},
              {"launches_at_once", r.time.launches},
              {"gb_per_second", r.bytes / median / 1e9},
              {"cache_outcome", r.time.outcome()},
              {"fallback_runs", r.time.after_all.fallback_runs - r.time.before.fallback_runs},
              {"compiler_loaded", s.compiler_loaded != 0},
              {"compile_ms", s.compile_milliseconds - r.time.before.compile_milliseconds},
              {"compiler_load_ms", s.compiler_load_milliseconds - r.time.before.compiler_load_milliseconds},
              {"plan", r.plan},
              {"check",
               {{"ok", r.check.ok},
                {"checked", r.check.checked},
                {"total", r.check.total},
                {"worst_error_over_bound", r.check.worst},
                {"what", r.check.what}}},
              {"seed", r.seed}};
  if (r.flops > 0) out["gflops"] = r.flops / median / 1e9;
  std::puts(out.dump(2).c_str());
}

void print_text(const Report& r) {
  const lathe_statistics &before = r.time.before, &s = r.time.after_first;
  const double median = r.time.median();
  std::string outcome = r.time.outcome();
  if (s.compiles > before.compiles) {
    absl::StrAppend(&outcome,
                    absl::StrFormat(" in %.1f ms", s.compile_milliseconds - before.compile_milliseconds));
  }
  absl::PrintF("%s\n", r.title);
  absl::PrintF("  first use  %-9s %s; compiler library %s\n", duration(r.time.first), outcome,
               s.compiler_loaded ? absl::StrFormat("loaded in %.1f ms", s.compiler_load_milliseconds -
                                                                            before.compiler_load_milliseconds)
                                 : "not loaded");
  const std::string times = r.time.launches == 1 ? "" : absl::StrCat(" times ", r.time.launches, " launches");
  absl::PrintF("  then       %-9s median of %d%s, %s to %s; same operands each time, caches warm\n",
               duration(median), r.time.repeats.size(), times, duration(r.time.repeats.front()),
               duration(r.time.repeats.back()));
  if (const uint64_t generic = r.time.after_all.fallback_runs - before.fallback_runs)
    absl::PrintF("  fallback   %d launches ran on the generic kernel\n", generic);
  if (r.flops > 0)
    absl::PrintF("  rate       %.4g GFLOP/s, %.4g GB/s\n", r.flops / median / 1e9, r.bytes / median / 1e9);
  else
    absl::PrintF("  rate       %.4g GB/s\n", r.bytes / median / 1e9);
  if (!r.plan.is_null()) {
    absl::PrintF("  device     %s\n", device_line(r.plan));
    absl::PrintF("  plan       %s, predicted %s\n", choice_line(r.plan), prediction(r.plan));
  }
  absl::PrintF("  check      %s: %s\n", r.check.ok ? "right" : "WRONG", r.check.what);
  if (r.check.ok && r.check.worst > 0) {
    absl::PrintF("             %d of %d elements compared with float64; largest error: %.2g of its bound\n",
                 r.check.checked, r.check.total, r.check.worst);
  }
  absl::PrintF("  seed       %d\n", r.seed);
}

absl::Status finish(const Arguments& arguments, const Report& report) {
  arguments.has("json") ? print_json(report) : print_text(report);
  if (report.check.ok) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("wrong result: ", report.check.what));
}

// The device and the settings of a run.
struct Setup {
  OpenedDevice on;
  int64_t repeats = 0;
  uint64_t seed = 0;
};

absl::StatusOr<Setup> set_up(const Arguments& arguments) {
  Setup s;
  auto repeats = arguments.integer("repeat", 10, 1, 1000000);
  if (!repeats.ok()) return repeats.status();
  auto seed = arguments.seed();
  if (!seed.ok()) return seed.status();
  if (absl::Status s = refuse_entries(arguments); !s.ok()) return s;
  auto opened = open_named(arguments, arguments.text("device", "cpu"));
  if (!opened.ok()) return opened.status();
  s.on = *std::move(opened);
  s.repeats = *repeats;
  s.seed = static_cast<uint64_t>(*seed);
  return s;
}

// The plan of the kernel that ran, or null if no plan shows it: the request needed no kernel, the generic kernel ran,
// or a GPU's operands were misaligned (a plan reads no pointers and assumes aligned ones).
absl::StatusOr<Json> plan_that_ran(const Trial& trial, const Measurement& time, const Stream& stream,
                                   size_t misalign) {
  if (time.always_generic()) return Json();
  if (!trial.needs_kernel() || (misalign % 16 != 0 && stream.get() != nullptr)) return Json();
  auto plan = trial.plan();
  if (!plan.ok()) return plan.status();
  return explain(plan->get());
}

absl::Status run(const Arguments& arguments, const AnyRequest& request) {
  auto setup = set_up(arguments);
  if (!setup.ok()) return setup.status();
  auto trial = make_trial(setup->on.device.get(), setup->on.stream, request, setup->seed);
  if (!trial.ok()) return trial.status();
  Report report;
  report.title = absl::StrCat(command_of(request), " on ", setup->on.name);
  report.seed = setup->seed;
  auto time = measure(setup->on.context.get(), setup->repeats, setup->on.stream, **trial);
  if (!time.ok()) return time.status();
  report.time = *time;
  auto result = run_checked(**trial);
  if (!result.ok()) return result.status();
  report.check = *result;
  report.flops = (*trial)->flops();
  report.bytes = (*trial)->bytes();
  auto plan = plan_that_ran(**trial, report.time, setup->on.stream, common_fields(request).misalign);
  if (!plan.ok()) return plan.status();
  report.plan = *plan;
  return finish(arguments, report);
}

std::vector<Flag> run_flags() {
  return {{"repeat", "N", "number of timed calls after the first (default: 10)"},
          seed_flag(),
          device_flag(),
          miss_flag(),
          pipeline_flag(),
          params_flag(),
          {"json", nullptr, "print the report as JSON"}};
}

}  // namespace

std::vector<Verb> run_verbs() {
  return verbs_of_ops("run", "run %s on random inputs, check the result against float64, and time it",
                      run_flags(), /*runs=*/true, run);
}

}  // namespace lathe::cli
