#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/bar_chart.h"
#include "cli/csv.h"
#include "cli/files.h"
#include "cli/opened_device.h"
#include "cli/params.h"
#include "cli/payload_run.h"
#include "cli/plan_text.h"
#include "cli/request_flags.h"
#include "cli/trial.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

struct Row {
  std::string payload, function, steps;
  double first = 0, median = 0, least = 0;  // seconds that all kernels of a run take
  double host = 0;                          // median seconds of the steps on the host
  double flops = 0, bytes = 0;              // of the kernels
  reference::CheckResult check;
  std::string refused;        // why the payload did not run; "": it ran
  std::vector<double> peers;  // median seconds of each external library; 0: it cannot run every step

  // Each step must be right, and the results must agree with the payload's text. Only the text shows whether the steps
  // are the right ones.
  bool good() const { return refused.empty() && check.ok && check.unjudged.empty(); }
  double gflops() const { return median > 0 ? flops / median / 1e9 : 0; }
  double gbytes() const { return median > 0 ? bytes / median / 1e9 : 0; }
  // The seconds of the fastest library over Lathe's; 0 if no library can run the payload.
  double ratio() const {
    double best = 0;
    for (const double seconds : peers)
      if (seconds > 0 && (best == 0 || seconds < best)) best = seconds;
    return median > 0 ? best / median : 0;
  }
};

struct Setting {
  lathe_context* context;
  lathe_device* device;
  const Stream& stream;
  int64_t rows, repeats;
  uint64_t seed;
  lathe_tuning tuning;  // for every matmul that Lathe runs
  std::string params;   // file with the choices for all steps; "": none
  const std::vector<OpenedDevice>& peers;
};

// Lathe or an external library, on operands of its own.
struct Entrant {
  std::string name;
  const Stream* stream;
  std::unique_ptr<PayloadTrial> trial;
  double first = 0;                   // seconds of the first run's kernels
  std::vector<double> kernels, host;  // seconds of each timed run: the kernels, and the steps on the host

  // Adds the run to `kernels` and `host` if it is timed. Returns the seconds that the kernels took.
  absl::StatusOr<double> run(bool is_timed) {
    const auto start = std::chrono::steady_clock::now();
    absl::StatusOr<double> on_host = trial->launch();
    if (!on_host.ok()) return on_host.status();
    if (absl::Status s = stream->synchronize(); !s.ok()) return s;
    const double all = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (is_timed) kernels.push_back(all - *on_host), host.push_back(*on_host);
    return all - *on_host;
  }
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Makes an entrant and runs it once.
absl::StatusOr<Entrant> enter(const Setting& setting, lathe_device* device, const Stream& stream,
                              const std::string& name, const Json& function,
                              absl::Span<const lathe_tuning> tunings) {
  auto trial = PayloadTrial::make(device, stream, function, setting.rows, setting.seed, tunings);
  if (!trial.ok()) return trial.status();
  Entrant entrant{name, &stream, *std::move(trial)};
  let_threads_end_spinning();
  absl::StatusOr<double> first = entrant.run(false);
  if (!first.ok()) return first.status();
  entrant.first = *first;
  return entrant;
}

// The entrants take turns of a few runs. A turn starts when the threads of the previous one sleep. Its first runs are
// not timed: they wake the threads and bring the operands into the caches.
absl::Status time_runs(std::vector<Entrant>* entrants, int64_t repeats) {
  constexpr int64_t kRunsATurn = 3;
  constexpr double kUntimedSeconds = 1e-3;
  for (int64_t done = 0; done < repeats; done += kRunsATurn)
    for (Entrant& e : *entrants) {
      let_threads_end_spinning();
      for (double untimed = 0; untimed < kUntimedSeconds;) {
        absl::StatusOr<double> seconds = e.run(false);
        if (!seconds.ok()) return seconds.status();
        untimed += std::max(*seconds, 1e-7);
      }
      for (int64_t i = done; i < std::min(done + kRunsATurn, repeats); ++i)
        if (absl::StatusOr<double> seconds = e.run(true); !seconds.ok()) return seconds.status();
    }
  return absl::OkStatus();
}

// The tuning of each step of the function: from `listed`, where the function's steps start at `first`; without a list,
// --split-k for each matmul.
absl::StatusOr<std::vector<lathe_tuning>> tunings_of(const Setting& setting, const Json& function,
                                                     const std::vector<lathe_tuning>* listed, size_t first) {
  absl::StatusOr<std::vector<PayloadStep>> steps = function_steps(function, setting.rows);
  if (!steps.ok()) return steps.status();
  std::vector<lathe_tuning> tunings;
  for (const PayloadStep& step : *steps)
    tunings.push_back(listed             ? listed->at(first + tunings.size())
                      : is_product(step) ? setting.tuning
                                         : lathe_tuning(LATHE_TUNING_INIT));
  return tunings;
}

absl::Status run_function(const Setting& setting, const Json& function,
                          const absl::StatusOr<std::vector<lathe_tuning>>& tunings, Row* row) {
  if (!tunings.ok()) return tunings.status();
  std::vector<Entrant> entrants;
  absl::StatusOr<Entrant> lathe = enter(setting, setting.device, setting.stream, "lathe", function, *tunings);
  if (!lathe.ok()) return lathe.status();
  const PayloadTrial& trial = *lathe->trial;
  std::vector<std::string> steps;
  for (const PayloadStep& step : trial.steps()) steps.push_back(step_line(step));
  row->steps = absl::StrJoin(steps, "; ");
  row->flops = trial.flops();
  row->bytes = trial.bytes();
  row->first = lathe->first;
  entrants.push_back(*std::move(lathe));
  if (row->flops > 0)  // the libraries have only matmuls
    for (const OpenedDevice& peer : setting.peers) {
      absl::StatusOr<Entrant> entrant =
          enter(setting, peer.device.get(), peer.stream, peer.name, function, {});
      if (absl::IsUnimplemented(entrant.status())) continue;
      if (!entrant.ok()) return entrant.status();
      entrants.push_back(*std::move(entrant));
    }
  if (absl::Status s = time_runs(&entrants, setting.repeats); !s.ok()) return s;
  for (Entrant& e : entrants) {
    absl::StatusOr<reference::CheckResult> check = e.trial->verify();
    if (!check.ok()) return check.status();
    if (&e == &entrants[0])
      row->check = *check;
    else if (!check->ok)
      return absl::DataLossError(absl::StrCat(e.name, " is wrong: ", check->what));
  }
  row->median = median(entrants[0].kernels);
  row->least = *std::min_element(entrants[0].kernels.begin(), entrants[0].kernels.end());
  row->host = median(entrants[0].host);
  row->peers.assign(setting.peers.size(), 0);
  for (size_t i = 0; i < setting.peers.size(); ++i)
    for (const Entrant& e : entrants)
      if (e.name == setting.peers[i].name) row->peers[i] = median(e.kernels);
  return absl::OkStatus();
}

// One row per function. If the payload or a function is refused, its row has the reason.
std::vector<Row> run_payload(const Setting& setting, const fs::path& path) {
  Row row;
  row.payload = path.stem().string();
  absl::StatusOr<Json> program = inspect_payload(setting.context, path.string());
  if (!program.ok()) {
    row.refused = std::string(program.status().message());
    return {row};
  }
  absl::StatusOr<std::vector<lathe_tuning>> listed = std::vector<lathe_tuning>();
  if (!setting.params.empty())
    listed = listed_tunings(setting.device, *program, setting.params, setting.rows);
  if (!listed.ok()) {
    row.refused = std::string(listed.status().message());
    return {row};
  }
  std::vector<Row> rows;
  size_t first = 0;  // the function's first step, counted over all functions
  for (const Json& function : program->at("functions")) {
    Row of = row;
    of.function = function.at("name").get<std::string>();
    const auto tunings = tunings_of(setting, function, setting.params.empty() ? nullptr : &*listed, first);
    if (absl::Status s = run_function(setting, function, tunings, &of); !s.ok())
      of.refused = std::string(s.message());
    first += function.at("steps").size();
    rows.push_back(of);
  }
  return rows;
}

absl::StatusOr<std::vector<fs::path>> payloads_in(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return std::vector<fs::path>{path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path, error))
    if (entry.path().extension() == ".mlir") files.push_back(entry.path());
  if (error || files.empty())
    return absl::InvalidArgumentError(absl::StrCat("no payload (*.mlir) in '", path, "'"));
  std::sort(files.begin(), files.end());
  return files;
}

void print(const Row& row) {
  if (!row.refused.empty()) {
    absl::PrintF("%-24s refused: %s\n", row.payload, row.refused);
  } else {
    const std::string judged = !row.check.unjudged.empty() ? "no"
                               : row.check.judged == row.check.to_judge
                                   ? "all"
                                   : absl::StrCat(row.check.judged, " of ", row.check.to_judge);
    const char* check = !row.check.ok ? "WRONG" : row.good() ? "right" : "unchecked";
    absl::PrintF("%-24s %-9s %9s %9s %9s %8.1f %8.1f", row.payload, check, duration(row.median),
                 row.host > 0 ? duration(row.host) : "-", duration(row.first), row.gflops(), row.gbytes());
    for (const double median : row.peers) absl::PrintF(" %9s", median > 0 ? duration(median) : "-");
    if (!row.peers.empty())
      absl::PrintF(" %7s", row.ratio() > 0 ? absl::StrFormat("%.2fx", row.ratio()) : "-");
    absl::PrintF("  %-18s %s\n", judged, row.check.ok ? row.steps : row.check.what);
    if (!row.check.unjudged.empty())
      absl::PrintF("%-24s the results were not compared with the text: %s\n", "", row.check.unjudged);
  }
  std::fflush(stdout);
}

// The geometric mean of the ratios to the fastest library, and the worst one.
void print_ratios(const std::vector<Row>& rows) {
  double logs = 0;
  int count = 0;
  const Row* worst = nullptr;
  for (const Row& row : rows) {
    const double ratio = row.ratio();
    if (!row.good() || ratio <= 0) continue;
    logs += std::log(ratio);
    ++count;
    if (worst == nullptr || ratio < worst->ratio()) worst = &row;
  }
  if (count == 0) return;
  absl::PrintF(
      "speed of Lathe over the fastest library: %.2fx in the geometric mean of %d payloads, worst %.2fx "
      "(%s)\n",
      std::exp(logs / count), count, worst->ratio(), worst->payload);
}

std::string csv_of(const std::vector<Row>& rows, const std::string& device,
                   const std::vector<OpenedDevice>& peers) {
  std::vector<std::string> columns = {"payload",       "function",         "device",        "steps",
                                      "right",         "checked",          "judged",        "results",
                                      "first_seconds", "median_seconds",   "least_seconds", "host_seconds",
                                      "gflops",        "gbytes_per_second"};
  for (const OpenedDevice& peer : peers) columns.push_back(peer.name + "_median_seconds");
  columns.push_back("ratio_to_fastest_peer");
  std::string text = csv_row(columns) + "\n";
  const auto seconds = [](double s) { return absl::StrFormat("%.9g", s); };
  for (const Row& r : rows) {
    if (!r.refused.empty()) continue;
    std::vector<std::string> fields = {r.payload,
                                       r.function,
                                       device,
                                       r.steps,
                                       r.good() ? "1" : "0",
                                       absl::StrCat(r.check.checked),
                                       absl::StrCat(r.check.judged),
                                       absl::StrCat(r.check.to_judge),
                                       seconds(r.first),
                                       seconds(r.median),
                                       seconds(r.least),
                                       seconds(r.host),
                                       absl::StrFormat("%.6g", r.gflops()),
                                       absl::StrFormat("%.6g", r.gbytes())};
    for (size_t i = 0; i < peers.size(); ++i)
      fields.push_back(i < r.peers.size() && r.peers[i] > 0 ? seconds(r.peers[i]) : "");
    fields.push_back(r.ratio() > 0 ? absl::StrFormat("%.4g", r.ratio()) : "");
    absl::StrAppend(&text, csv_row(fields), "\n");
  }
  return text;
}

// Two charts: matmuls in GFLOP/s, all other payloads in GB/s.
std::string chart_of(const std::vector<Row>& rows, const std::string& device,
                     const std::vector<OpenedDevice>& peers) {
  BarChart products, others;
  products.title = absl::StrCat("Matmuls on ", device);
  products.unit = "GFLOP/s";
  products.series = {"Lathe"};
  for (const OpenedDevice& peer : peers) products.series.push_back(peer.name);
  others.title = absl::StrCat("Bandwidth on ", device);
  others.unit = "GB/s";
  for (const Row& r : rows) {
    if (!r.good()) continue;
    if (r.flops == 0) {
      if (r.bytes > 0) others.groups.push_back({r.payload, {r.gbytes()}});
      continue;
    }
    BarChart::Group group = {r.payload, {r.gflops()}};
    for (const double seconds : r.peers) group.values.push_back(seconds > 0 ? r.flops / seconds / 1e9 : 0);
    products.groups.push_back(std::move(group));
  }
  return svg_of({products, others});
}

absl::Status kernel_bench(const Arguments& arguments) {
  absl::StatusOr<std::vector<fs::path>> files = payloads_in(arguments.words[0]);
  if (!files.ok()) return files.status();
  absl::StatusOr<int64_t> rows = arguments.integer("rows", 16, 0, INT32_MAX);
  if (!rows.ok()) return rows.status();
  absl::StatusOr<int64_t> repeats = arguments.integer("repeat", 10, 1, 1000000);
  if (!repeats.ok()) return repeats.status();
  absl::StatusOr<int64_t> seed = arguments.seed();
  if (!seed.ok()) return seed.status();
  lathe_tuning tuning = LATHE_TUNING_INIT;
  if (absl::Status s = read_integer(arguments, "split-k", 1, kMostSplits, &tuning.split_k); !s.ok()) return s;
  absl::StatusOr<bool> listed = false;
  const std::string params = arguments.text("params", "");
  if (arguments.has("params")) listed = lists_entries(params);
  if (!listed.ok()) return listed.status();
  std::error_code error;
  if (*listed && !fs::is_regular_file(arguments.words[0], error))
    return absl::InvalidArgumentError(absl::StrCat("--params ", params,
                                                   ": the entries are for one payload, but ",
                                                   arguments.words[0], " is a directory: name one file"));
  if (*listed && arguments.has("split-k"))
    return absl::InvalidArgumentError("--split-k cannot be used with --params: its entries give the splits");
  const std::string target = arguments.text("target", "cpu");
  const absl::StatusOr<OpenedDevice> opened = open_named(arguments, target, {LATHE_EXTERNAL_OFF});
  if (!opened.ok()) return opened.status();
  const absl::StatusOr<std::vector<OpenedDevice>> peers = open_for_externals(arguments, *opened);
  if (!peers.ok()) return peers.status();
  const Setting setting{opened->context.get(),
                        opened->device.get(),
                        opened->stream,
                        *rows,
                        *repeats,
                        static_cast<uint64_t>(*seed),
                        tuning,
                        *listed ? params : "",
                        *peers};

  absl::PrintF("%-24s %-9s %9s %9s %9s %8s %8s", "payload", "check", "kernels", "on host", "first use",
               "GFLOP/s", "GB/s");
  for (const OpenedDevice& peer : *peers) absl::PrintF(" %9s", peer.name);
  if (!peers->empty()) absl::PrintF(" %7s", "ratio");
  absl::PrintF("  %-18s steps; open rows are %d, seed %d\n", "compared to text", *rows, *seed);
  std::vector<Row> table;
  for (const fs::path& file : *files) {
    for (const Row& row : run_payload(setting, file)) {
      print(row);
      table.push_back(row);
    }
  }
  if (arguments.has("csv"))
    if (absl::Status s = write_file(arguments.text("csv", ""), csv_of(table, target, *peers)); !s.ok())
      return s;
  if (arguments.has("svg"))
    if (absl::Status s = write_file(arguments.text("svg", ""), chart_of(table, target, *peers)); !s.ok())
      return s;
  print_ratios(table);
  const auto bad = std::count_if(table.begin(), table.end(), [](const Row& r) { return !r.good(); });
  absl::PrintF("%d of %d right\n", table.size() - bad, table.size());
  return bad == 0 ? absl::OkStatus()
                  : absl::DataLossError(absl::StrFormat(
                        "%d payloads are refused, wrong, or not compared with their text", bad));
}

}  // namespace

Verb kernel_bench_verb() {
  return {"kernel-bench",
          "DIR|PAYLOAD.MLIR",
          1,
          "run MLIR modules on random arguments, check each step against float64, and time Lathe and the "
          "external "
          "libraries",
          {{"target", "cpu|cuda:0|hip:0", "device to run on (default: cpu)"},
           {"rows", "M", "number of rows where a payload leaves it open (default: 16)"},
           {"repeat", "N", "number of timed runs after the first (default: 10)"},
           kProductsSplitK,
           seed_flag(),
           {"csv", "FILE", "write the table to this CSV file"},
           {"svg", "FILE", "write a chart of the table to this SVG file"},
           pipeline_flag(),
           {"params", "FILE",
            "run exactly the choices in this file from 'lathe plan --out'; its \"parameters\" set the "
            "params.NAME of the pipelines"},
           miss_flag()},
          {"lathe kernel-bench benchmarks/payloads --csv cpu.csv --svg cpu.svg",
           "lathe kernel-bench benchmarks/payloads --target cuda:0"},
          kernel_bench};
}

}  // namespace lathe::cli
