#include "tune/tune.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/spinning_threads.h"
#include "dispatch/class_on_device.h"
#include "dispatch/dispatch.h"
#include "dispatch/externals.h"
#include "dispatch/plan_records.h"
#include "dispatch/prepare.h"
#include "observe/number_text.h"
#include "observe/text_file.h"
#include "options/path_options.h"
#include "options/raw_enum.h"
#include "request/pass_text.h"
#include "tune/tune_operands.h"

namespace lathe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostCandidates = 4096;
constexpr size_t kRounds = 9, kLeastRounds = 5;
// A candidate that takes this many times as long as the fastest cannot win, so it is measured only once.
constexpr double kHopeless = 2;
constexpr double kLeastGain = 0.02;  // a winner must be faster by this part of the time
// After waiting for spinning threads, calls shorter than this run once untimed, because the workers may sleep.
constexpr double kShortCall = 10e-3;
constexpr double kLockSeconds = 10;

double quantile(std::vector<double> values, double of) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(of * static_cast<double>(values.size() - 1) + 0.5)];
}

// Four times the last-level cache, as in the benchmarks. Then at most a quarter of an operand is still in the cache
// when its turn comes again.
size_t pool_bytes_of(const lathe_device& device) {
  constexpr double kMost = 1.5e9;
  const double l2 = device.facts.fact_or("l2_bytes", 4 << 20);
  const double cache = std::max(l2, device.is_cpu ? device.facts.fact_or("l3_bytes", 16 << 20) : l2);
  return static_cast<size_t>(std::min(kMost, 4 * cache));
}

struct Contestant {
  size_t rank;
  DispatchEntry entry;
  size_t calls = 1;  // calls per round
  bool hopeless = false;
  std::vector<double> seconds;  // seconds per call, one value per round
};

void tell_left_out(const lathe_device& device, const ProblemClass& problem, size_t rank,
                   const absl::Status& why) {
  device.context.logger.log(
      LogLevel::kWarning, absl::StrCat("tuning: ", describe_class(device, problem), ": candidate ", rank + 1,
                                       " is left out: ", why.message()));
}

// Measures the candidates of one class in turns.
class Contest {
 public:
  Contest(lathe_device& device, TuneOperands& operands, const std::function<bool()>& goes_on)
      : device_(device), operands_(operands), goes_on_(goes_on) {}

  absl::Status run(std::vector<Contestant>* contestants, double candidate_seconds) {
    has_library_ =
        device_.is_cpu && std::any_of(contestants->begin(), contestants->end(),
                                      [](const Contestant& c) { return is_external(*c.entry.kernel); });
    LATHE_RETURN_IF_ERROR(run_once(contestants));
    double fastest = 1e30;
    for (const Contestant& c : *contestants) fastest = std::min(fastest, c.seconds[0]);
    const size_t rounds =
        std::clamp(static_cast<size_t>(candidate_seconds / std::max(fastest, 1e-9)), kLeastRounds, kRounds);
    for (Contestant& c : *contestants) {
      c.hopeless = c.rank != contestants->front().rank && c.seconds[0] > kHopeless * fastest;
      const double slice = candidate_seconds / static_cast<double>(rounds) / std::max(c.seconds[0], 1e-9);
      c.calls = static_cast<size_t>(std::clamp(slice, 1.0, 1e6));
      if (!c.hopeless) c.seconds.clear();
    }
    for (size_t round = 0; round < rounds; ++round) {
      // The first candidate of a round changes with each round, so that a change of the clock frequency within a round
      // does not always hit the same candidate.
      for (size_t i = 0; i < contestants->size(); ++i) {
        Contestant& c = (*contestants)[(i + round) % contestants->size()];
        if (c.hopeless) continue;
        if (has_library_) {
          spinning_.wait();
          if (fastest < kShortCall) LATHE_RETURN_IF_ERROR(time(c, 1).status());
        }
        LATHE_ASSIGN_OR_RETURN(const double seconds, time(c, c.calls));
        c.seconds.push_back(seconds);
      }
    }
    return absl::OkStatus();
  }

 private:
  // Times each candidate once. Leaves out candidates that their external library refuses at run time.
  absl::Status run_once(std::vector<Contestant>* contestants) {
    for (auto c = contestants->begin(); c != contestants->end();) {
      if (has_library_) spinning_.wait();
      const absl::Status awake =
          time(*c, 1).status();  // warms up pages, instruction caches and launch memory
      if (absl::IsUnavailable(awake) && contestants->size() > 1) {
        tell_left_out(device_, c->entry.key.problem, c->rank, awake);
        c = contestants->erase(c);
        continue;
      }
      LATHE_RETURN_IF_ERROR(awake);
      c->seconds.reserve(kRounds);
      LATHE_ASSIGN_OR_RETURN(const double once, time(*c, 1));
      c->seconds.push_back(once);
      ++c;
    }
    return absl::OkStatus();
  }

  // The average seconds of a call, over `calls` calls.
  absl::StatusOr<double> time(const Contestant& c, size_t calls) {
    if (!goes_on_()) return absl::CancelledError("");
    const auto start = Clock::now();
    for (size_t i = 0; i < calls; ++i)
      LATHE_RETURN_IF_ERROR(launch_request(device_, c.entry, operands_.next_request(), nullptr));
    LATHE_RETURN_IF_ERROR(operands_.synchronize());
    const std::chrono::duration<double> took = Clock::now() - start;
    return took.count() / static_cast<double>(calls);
  }

  lathe_device& device_;
  TuneOperands& operands_;
  const std::function<bool()>& goes_on_;
  bool has_library_ = false;  // the threads of an external library may spin while the next candidate runs
  SpinningThreads spinning_;
};

// The kind of a candidate: an external library's name, a ukernel's function, or "" for generated code.
std::string kind_of(const CompileConfig& config) {
  return config.external.provider.empty() ? config.ukernel.function : config.external.provider;
}

// Loads the kernels of the first `count` candidates, and of the first candidate of each other kind. Only candidates
// that keep the class's promise of equal bits count. A candidate that cannot be loaded is left out; for the first one
// this is an error, unless it is a library's.
absl::StatusOr<std::vector<Contestant>> load_contestants(lathe_device& device, const DispatchKey& key,
                                                         const Choice& oracle, size_t count,
                                                         const std::function<bool()>& goes_on) {
  std::vector<Contestant> contestants;
  std::set<std::string> kinds;
  for (size_t rank = 0; rank < oracle.answer.legal; ++rank) {
    if (!keeps_promise(oracle.answer, key.problem, rank)) continue;
    const bool fresh = kinds.insert(kind_of(oracle.answer.ranked[rank].plan.config)).second;
    if (contestants.size() >= count && !fresh) continue;
    if (!goes_on()) return absl::CancelledError("");
    Choice choice = oracle;
    take_rank(device, key, rank, ChosenBy::kRequest, &choice);
    const bool is_library = !choice.plan().config.external.provider.empty();
    const absl::StatusOr<Loaded> loaded = load_kernel(device, key.problem, choice);
    if (!loaded.ok()) {
      if (rank == 0 && !is_library) return loaded.status();
      tell_left_out(device, key.problem, rank, loaded.status());
      continue;
    }
    // The candidate is forced, so that Lathe does not run another kernel if a library fails.
    DispatchKey forced = key;
    forced.candidate = static_cast<int32_t>(rank) + 1;
    contestants.push_back(
        {rank, make_entry(forced, loaded->kernel, choice.plan().launch.splits), 1, false, {}});
  }
  if (contestants.empty()) return absl::UnavailableError("no candidate of the class can be loaded");
  return contestants;
}

absl::Status add_to_file(const std::string& path, const PlanRecord& record) {
  bool locked = false;
  return update_text_file(
      path, kLockSeconds, &locked, [&](absl::string_view there) -> absl::StatusOr<std::string> {
        TuningFile file;
        if (!there.empty()) {
          LATHE_ASSIGN_OR_RETURN(file, parse_tuning(there));
        }
        if (!file.refused.empty()) return absl::InvalidArgumentError(file.refused.front());
        const Key key = key_of(record);
        const auto same = std::find_if(file.records.begin(), file.records.end(),
                                       [&](const PlanRecord& r) { return key_of(r) == key; });
        if (same == file.records.end())
          file.records.push_back(record);
        else
          *same = record;
        return tuning_text(file.records);
      });
}

absl::Status keep(lathe_device& device, const PlanRecord& record, const std::string& request,
                  const TuneOptions& options) {
  if (options.text != nullptr) pass_text(options.text, options.text_user, request.c_str(), to_json(record));
  ArtifactCache& cache = *device.context.cache;
  const absl::Status cached = cache.keeps_records() ? cache.write_record(record) : absl::OkStatus();
  const absl::Status written =
      options.output.empty() ? absl::OkStatus() : add_to_file(options.output, record);
  return cached.ok() ? written : cached;
}

bool is_confirmed(const PlanRecord& record) {
  return record.measured[0].splits == record.splits && record.measured[0].config == record.config;
}

}  // namespace

size_t winner_of(const std::vector<std::vector<double>>& seconds) {
  size_t winner = 0;
  double least = 1;
  for (size_t c = 1; c < seconds.size(); ++c) {
    if (seconds[c].size() != seconds[0].size()) continue;
    std::vector<double> ratios;
    ratios.reserve(seconds[c].size());
    for (size_t round = 0; round < seconds[c].size(); ++round)
      ratios.push_back(seconds[c][round] / seconds[0][round]);
    const double median = quantile(ratios, 0.5);
    if (quantile(ratios, 0.75) < 1 && median <= 1 - kLeastGain && median < least) {
      winner = c;
      least = median;
    }
  }
  return winner;
}

absl::StatusOr<PlanRecord> measure_class(lathe_device& device, const TuneClass& tuned,
                                         const TuneOptions& options, const std::function<bool()>& goes_on) {
  const DispatchKey key = {tuned.problem, 0, 0};
  if (tuned.problem.rows != Rows::kPlain)
    return absl::UnimplementedError("tuning: rows that are known only on the device cannot be measured");
  if (tuned.problem.determinism == Determinism::kBatchInvariant)
    return absl::UnimplementedError(
        "batch_invariant has one numeric recipe for all buckets of M, so a class of one bucket cannot be "
        "tuned");
  LATHE_ASSIGN_OR_RETURN(const Choice oracle, choose_by_oracle(device, key));
  LATHE_ASSIGN_OR_RETURN(std::vector<Contestant> contestants,
                         load_contestants(device, key, oracle, options.candidates, goes_on));
  LATHE_ASSIGN_OR_RETURN(
      const std::unique_ptr<TuneOperands> operands,
      TuneOperands::make(device, tuned.problem, tuned.dims,
                         options.pool_bytes > 0 ? options.pool_bytes : pool_bytes_of(device)));
  LATHE_RETURN_IF_ERROR(Contest(device, *operands, goes_on).run(&contestants, options.candidate_seconds));

  PlanRecord record = make_record(device, RecordKind::kTuned, tuned.problem);
  std::vector<std::vector<double>> seconds;
  for (const Contestant& c : contestants) {
    const Plan& plan = oracle.answer.ranked[c.rank].plan;
    record.measured.push_back(
        {plan.config, plan.launch.splits, plan.predicted_seconds, quantile(c.seconds, 0.5)});
    seconds.push_back(c.seconds);
  }
  const MeasuredCandidate& winner = record.measured[winner_of(seconds)];
  record.config = winner.config;
  record.splits = winner.splits;
  return record;
}

absl::StatusOr<TuneOptions> read_tune_options(const lathe_context& context,
                                              const lathe_tune_options* options) {
  static const lathe_tune_options kDefaults = LATHE_TUNE_OPTIONS_INIT;
  if (options == nullptr) options = &kDefaults;
  const auto invalid = [](const auto&... cause) {
    return absl::InvalidArgumentError(absl::StrCat("lathe_tune_options: ", cause...));
  };
  if (options->struct_size != sizeof *options)
    return invalid("struct_size ", options->struct_size, " is not ", sizeof *options);
  if (options->next != nullptr)
    return absl::UnimplementedError("lathe_tune_options: no chain element is known here");
  if (options->reserved != 0) return absl::UnimplementedError("lathe_tune_options: reserved is not 0");
  if (options->candidates > kMostCandidates)
    return invalid("candidates ", options->candidates, " is more than ", kMostCandidates);
  if (options->run.parallelism > 1)
    return invalid("run.parallelism ", options->run.parallelism,
                   ": tuning measures on one thread, so use 0 or 1");
  TuneOptions out;
  LATHE_ASSIGN_OR_RETURN(out.run, read_warm_options(context, &options->run));
  if (!out.run.compiles)
    return invalid("run.miss_policy is ERROR, but tuning must compile the candidates: use BLOCK");
  out.run.what = "tuning";
  out.run.threads = 1;
  if (options->candidates > 0) out.candidates = options->candidates;
  if (options->candidate_nanoseconds > 0)
    out.candidate_seconds = static_cast<double>(options->candidate_nanoseconds) * 1e-9;
  out.pool_bytes = options->pool_bytes;
  if (options->output != nullptr) {
    LATHE_ASSIGN_OR_RETURN(out.output, absolute_option("lathe_tune_options: output", options->output));
  }
  out.text = options->text;
  out.text_user = options->text_user;
  return out;
}

absl::Status tune(lathe_device& device, const std::vector<WarmClass>& classes, const Dims* dims,
                  const TuneOptions& options, lathe_tune_report* report) {
  if (device.driver == nullptr)
    return absl::UnavailableError(
        absl::StrCat("tuning measures on the device itself, and ", device.name,
                     " is only described by facts: tune on a machine that has it, and "
                     "copy the records"));
  if (!device.context.cache->keeps_records() && options.output.empty() && options.text == nullptr)
    return absl::UnavailableError(
        "tuning: there is neither a cache directory nor a file for the records: set cache_dir or output");
  if (!options.output.empty()) LATHE_RETURN_IF_ERROR(check_replaceable(options.output));
  WarmOptions run = options.run;
  uint64_t replaced = 0, confirmed = 0, refused = 0, candidates = 0;
  run.work = [&](const WarmClass& warm, const std::function<bool()>& goes_on) -> absl::Status {
    TuneClass tuned = {warm.key.problem, measured_dims(warm.key.problem)};
    if (dims != nullptr)
      tuned.dims = *dims;
    else if (!has_row_lengths(tuned.problem.op))
      tuned.dims.m = std::max(tuned.problem.m_lo, std::min(tuned.dims.m, warm.m_max));
    if (warm.key.split_k != 0 || warm.key.candidate != 0)
      return absl::InvalidArgumentError("its candidate is forced, so tuning has nothing to choose");
    const bool measurable =
        tuned.problem.determinism != Determinism::kBatchInvariant && tuned.problem.rows == Rows::kPlain;
    if (dims == nullptr && !measurable) {
      ++refused;
      return absl::OkStatus();
    }
    LATHE_ASSIGN_OR_RETURN(const PlanRecord record, measure_class(device, tuned, options, goes_on));
    LATHE_RETURN_IF_ERROR(keep(
        device, record, absl::StrCat(describe(tuned.problem, tuned.dims), " on ", device.name), options));
    ++(is_confirmed(record) ? confirmed : replaced);
    candidates += record.measured.size();
    return absl::OkStatus();
  };
  lathe_warmup_report warm = LATHE_WARMUP_REPORT_INIT;
  const absl::Status status = warm_up(device, classes, run, &warm);
  report->classes = warm.classes;
  report->replaced = replaced;
  report->confirmed = confirmed;
  report->refused = refused;
  report->failed = warm.failed;
  report->skipped = warm.skipped;
  report->candidates = candidates;
  report->milliseconds = warm.milliseconds;
  device.context.logger.log(
      LogLevel::kInfo, absl::StrCat("tuning: ", warm.classes, " classes on ", device.name, ": ", replaced,
                                    " replaced, ", confirmed, " confirmed, ", refused, " refused, ",
                                    warm.failed, " failed, ", warm.skipped, " not begun, ", candidates,
                                    " candidates, ", number_text("%.1f", warm.milliseconds), " ms"));
  return status;
}

}  // namespace lathe
