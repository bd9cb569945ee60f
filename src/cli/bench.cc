// Times a request with cold operands: Lathe, and each external library that can serve it, take turns.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/opened_device.h"
#include "cli/plan_text.h"
#include "cli/request_flags.h"
#include "cli/trial.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

constexpr double kRoundSeconds = 2e-3;  // a round of one entrant takes at least this long
constexpr size_t kLeastRounds = 7, kMostRounds = 1000;
constexpr double kMostCopies = 1024;
constexpr double kMostPoolBytes = 512e6;  // per entrant, without --pool

struct Entrant {
  std::string name;
  const Stream* stream = nullptr;
  std::vector<std::unique_ptr<Trial>> copies;
  size_t next = 0;
  int64_t launches = 1;         // launches per round
  bool is_short = false;        // a launch is so short that waking sleeping threads would distort a round
  std::vector<double> seconds;  // seconds per launch, one value per round
  reference::CheckResult check;
};

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1) + 0.5)];
}

absl::StatusOr<double> time_round(Entrant* e) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < e->launches; ++i)
    if (absl::Status s = check(e->copies[e->next++ % e->copies.size()]->launch()); !s.ok()) return s;
  if (absl::Status s = e->stream->synchronize(); !s.ok()) return s;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return took.count() / static_cast<double>(e->launches);
}

// Before a round of launches shorter than this, one launch runs untimed to wake the threads.
constexpr double kShortLaunch = 10e-3;

// Runs the rounds. An untimed first round sets the number of launches per round. Each round starts with another
// entrant, and an entrant starts only after the threads of the previous one have stopped spinning.
absl::Status contest(double seconds, std::vector<Entrant>* entrants) {
  for (Entrant& e : *entrants) {
    absl::StatusOr<double> once = time_round(&e);
    if (!once.ok()) return once.status();
    e.launches = static_cast<int64_t>(std::clamp(kRoundSeconds / *once, 1.0, 100000.0));
    e.is_short = *once < kShortLaunch;
  }
  double waited = 0;
  const auto start = std::chrono::steady_clock::now();
  for (size_t round = 0; round < kMostRounds; ++round) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (round >= kLeastRounds && took.count() - waited > seconds) break;
    for (size_t i = 0; i < entrants->size(); ++i) {
      Entrant& e = (*entrants)[(i + round) % entrants->size()];
      if (entrants->size() > 1) waited += let_threads_end_spinning();
      if (e.is_short)
        if (absl::Status s = check(e.copies[e.next++ % e.copies.size()]->launch()); !s.ok()) return s;
      absl::StatusOr<double> once = time_round(&e);
      if (!once.ok()) return once.status();
      e.seconds.push_back(*once);
    }
  }
  return absl::OkStatus();
}

// The size of the largest cache in the device's facts; 0 if none is known.
absl::StatusOr<double> cache_bytes(const OpenedDevice& device) {
  std::vector<Text> pieces;
  if (absl::Status s = check(lathe_devices(device.context.get(), collect_text, &pieces)); !s.ok()) return s;
  const absl::StatusOr<Json> list = parse_json(pieces, "devices");
  if (!list.ok()) return list.status();
  double bytes = 0;
  for (const Json& d : *list) {
    if (d.value("name", "") != device.name || !d.at("facts").is_object()) continue;
    for (const char* fact : {"l1d_bytes", "l2_bytes", "l3_bytes"})
      if (d["facts"].contains(fact)) bytes = std::max(bytes, d["facts"][fact].at("value").get<double>());
  }
  return bytes;
}

struct Settings {
  double seconds = 1, pool_bytes = 0, cache_bytes = 0;
  uint64_t seed = 0;
};

absl::StatusOr<Settings> read_settings(const Arguments& arguments, const OpenedDevice& device) {
  Settings s;
  if (!absl::SimpleAtod(arguments.text("seconds", "1"), &s.seconds) || !(s.seconds > 0 && s.seconds <= 3600))
    return absl::InvalidArgumentError(absl::StrCat("--seconds takes a number above 0 and up to 3600, not '",
                                                   arguments.text("seconds", ""), "'"));
  absl::StatusOr<int64_t> seed = arguments.seed();
  if (!seed.ok()) return seed.status();
  s.seed = static_cast<uint64_t>(*seed);
  absl::StatusOr<double> cache = cache_bytes(device);
  if (!cache.ok()) return cache.status();
  s.cache_bytes = *cache;
  absl::StatusOr<int64_t> megabytes = arguments.integer("pool", 0, 0, 1 << 20);
  if (!megabytes.ok()) return megabytes.status();
  s.pool_bytes = arguments.has("pool") ? static_cast<double>(*megabytes) * 1e6
                                       : std::min(4 * s.cache_bytes, kMostPoolBytes);
  return s;
}

// Makes as many copies of the request as the pool holds, and checks the result of the first one.
absl::Status prepare(const OpenedDevice& on, const AnyRequest& request, const Settings& settings,
                     Entrant* e) {
  e->name = on.name;
  e->stream = &on.stream;
  size_t copies = 1;
  for (uint64_t i = 0; i < copies; ++i) {
    auto trial = make_trial(on.device.get(), on.stream, request, settings.seed + i);
    if (!trial.ok()) return trial.status();
    e->copies.push_back(*std::move(trial));
    if (i > 0) continue;
    const double bytes = std::max(1.0, e->copies[0]->bytes());
    copies = static_cast<size_t>(std::clamp(std::ceil(settings.pool_bytes / bytes), 1.0, kMostCopies));
    if (absl::Status s =
            check_memory(absl::StrCat(copies, " times ", command_of(request)),
                         on.stream.host_copies() * e->copies[0]->memory() * static_cast<double>(copies));
        !s.ok())
      return s;
    absl::StatusOr<reference::CheckResult> result = run_checked(*e->copies[0]);
    if (!result.ok()) return result.status();
    e->check = *result;
  }
  return absl::OkStatus();
}

// Why a library cannot serve the request; "" if it has no routine for the op.
std::string rejection_of(const Json& plan, const std::string& library) {
  for (const Json& candidate : plan.at("candidates"))
    if (candidate.at("config").at("external").value("library", "") == library)
      return candidate.value("rejection", "");
  return "";
}

struct Report {
  std::string title;
  Settings settings;
  std::vector<Entrant> entrants;
  std::vector<std::pair<std::string, std::string>> refused;  // library, reason
  Json plan;

  double bytes() const { return entrants[0].copies[0]->bytes(); }
  double flops() const { return entrants[0].copies[0]->flops(); }
  size_t copies() const { return entrants[0].copies.size(); }
  // The entrant's time divided by Lathe's, for each round.
  std::vector<double> ratios(const Entrant& e) const {
    std::vector<double> ratios;
    for (size_t i = 0; i < e.seconds.size(); ++i) ratios.push_back(e.seconds[i] / entrants[0].seconds[i]);
    return ratios;
  }
};

void print_json(const Report& r) {
  Json entrants = Json::array();
  for (const Entrant& e : r.entrants) {
    const double median = quantile(e.seconds, 0.5);
    const std::vector<double> ratios = r.ratios(e);
    Json entrant = {{"name", e.name},
                    {"median_seconds", median},
                    {"quartiles_seconds", {quantile(e.seconds, 0.25), quantile(e.seconds, 0.75)}},
                    {"rounds", e.seconds.size()},
                    {"launches_a_round", e.launches},
                    {"gb_per_second", r.bytes() / median / 1e9},
                    {"time_over_lathe", quantile(ratios, 0.5)},
                    {"time_over_lathe_quartiles", {quantile(ratios, 0.25), quantile(ratios, 0.75)}},
                    {"check", {{"ok", e.check.ok}, {"what", e.check.what}}}};
    if (r.flops() > 0) entrant["gflops"] = r.flops() / median / 1e9;
    entrants.push_back(std::move(entrant));
  }
  Json refused = Json::object();
  for (const auto& [library, why] : r.refused) refused[library] = why;
  const Json out = {{"request", r.title},   {"copies", r.copies()},
                    {"bytes", r.bytes()},   {"cache_bytes", r.settings.cache_bytes},
                    {"entrants", entrants}, {"refused", refused},
                    {"plan", r.plan},       {"seed", r.settings.seed}};
  std::puts(out.dump(2).c_str());
}

void print_text(const Report& r) {
  const double pool = r.bytes() * static_cast<double>(r.copies());
  absl::PrintF("%s\n  operands   %d copies of %.4g MB in turn, %s\n", r.title, r.copies(), r.bytes() / 1e6,
               r.settings.cache_bytes > 0
                   ? absl::StrFormat("%.1f times the largest cache (%.4g MB)", pool / r.settings.cache_bytes,
                                     r.settings.cache_bytes / 1e6)
                   : "the device's cache size is unknown");
  if (!r.plan.is_null())
    absl::PrintF("  plan       %s, predicted %s\n", choice_line(r.plan), prediction(r.plan));
  absl::PrintF("  %-10s %9s  %-22s %9s %9s  %-12s rounds\n", "", "median", "quartiles", "GFLOP/s", "GB/s",
               "over lathe");
  for (const Entrant& e : r.entrants) {
    const double median = quantile(e.seconds, 0.5);
    const std::vector<double> ratios = r.ratios(e);
    absl::PrintF(
        "  %-10s %9s  %-22s %9s %9.4g  %-12s %d of %d launches\n", e.name, duration(median),
        absl::StrCat(duration(quantile(e.seconds, 0.25)), " to ", duration(quantile(e.seconds, 0.75))),
        r.flops() > 0 ? absl::StrFormat("%.4g", r.flops() / median / 1e9) : "-", r.bytes() / median / 1e9,
        &e == &r.entrants[0] ? "" : absl::StrFormat("%.2fx", quantile(ratios, 0.5)), e.seconds.size(),
        e.launches);
  }
  for (const auto& [library, why] : r.refused) absl::PrintF("  %-10s not measured: %s\n", library, why);
  for (const Entrant& e : r.entrants)
    if (!e.check.ok) absl::PrintF("  check      %s is WRONG: %s\n", e.name, e.check.what);
  absl::PrintF("  seed       %d\n", r.settings.seed);
}

absl::Status bench(const Arguments& arguments, const AnyRequest& request) {
  const absl::StatusOr<OpenedDevice> device =
      open_named(arguments, arguments.text("device", "cpu"), {LATHE_EXTERNAL_OFF});
  if (!device.ok()) return device.status();
  const absl::StatusOr<Settings> settings = read_settings(arguments, *device);
  if (!settings.ok()) return settings.status();
  const absl::StatusOr<std::vector<OpenedDevice>> libraries = open_for_externals(arguments, *device);
  if (!libraries.ok()) return libraries.status();
  Report report;  // after the devices, so that it is destroyed first: its trials hold their memory
  report.title = absl::StrCat(command_of(request), " on ", device->name);
  report.settings = *settings;
  Entrant lathe;
  if (absl::Status s = prepare(*device, request, *settings, &lathe); !s.ok()) return s;
  lathe.name = "lathe";
  if (!lathe.copies[0]->needs_kernel())
    return absl::FailedPreconditionError(
        absl::StrCat(report.title, ": the request needs no kernel, so there is nothing to time"));
  absl::StatusOr<Plan> plan = lathe.copies[0]->plan();
  if (!plan.ok()) return plan.status();
  absl::StatusOr<Json> explained = explain(plan->get());
  if (!explained.ok()) return explained.status();
  report.plan = *std::move(explained);
  report.entrants.push_back(std::move(lathe));
  for (const OpenedDevice& library : *libraries) {
    Entrant e;
    const absl::Status prepared = prepare(library, request, *settings, &e);
    if (prepared.ok()) {
      report.entrants.push_back(std::move(e));
    } else {
      // The plan of a grouped product is that of a matmul, which libraries have.
      const bool has_routine = !std::holds_alternative<reference::GroupedMatmulRequest>(request);
      const std::string why = has_routine ? rejection_of(report.plan, library.name) : "";
      report.refused.emplace_back(library.name, !absl::IsUnimplemented(prepared)
                                                    ? std::string(prepared.message())
                                                : why.empty() ? "it has no routine for this op"
                                                              : why);
    }
  }
  if (absl::Status s = contest(settings->seconds, &report.entrants); !s.ok()) return s;
  arguments.has("json") ? print_json(report) : print_text(report);
  const reference::CheckResult& check = report.entrants[0].check;
  return check.ok ? absl::OkStatus() : absl::DataLossError(absl::StrCat("wrong result: ", check.what));
}

std::vector<Flag> bench_flags() {
  return {{"seconds", "S", "time for all rounds, at least 7 of which run (default: 1)"},
          {"pool", "MB",
           "size of the operands' copies, which take turns so that they are cold (default: 4 times the "
           "largest cache, at most 512)"},
          seed_flag(),
          {"device", "NAME", "one of the devices in 'lathe devices' (default: cpu)"},
          {"json", nullptr, "print the report as JSON"}};
}

}  // namespace

std::vector<Verb> bench_verbs() {
  return verbs_of_ops("bench",
                      "time %s with cold operands, in turns with each external library that can compute it",
                      bench_flags(), /*runs=*/true, bench);
}

}  // namespace lathe::cli
