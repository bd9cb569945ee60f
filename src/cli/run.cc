#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/numbers.h"
#include "cli/plan_text.h"
#include "cli/reference.h"
#include "cli/request.h"
#include "cli/session.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

struct Measurement {
  double first = 0;             // seconds, from call to result
  std::vector<double> repeats;  // seconds, ascending
  lathe_statistics before = LATHE_STATISTICS_INIT, after_first = LATHE_STATISTICS_INIT;

  double median() const { return repeats[repeats.size() / 2]; }
  std::string outcome() const {
    if (after_first.compiles > before.compiles) return "compiled";
    if (after_first.disk_hits > before.disk_hits) return "disk hit";
    if (after_first.memory_hits > before.memory_hits) return "memory hit";
    return after_first.dispatch_hits > before.dispatch_hits ? "dispatch hit" : "no kernel needed";
  }
};

absl::StatusOr<double> time_call(const std::function<lathe_status()>& call) {
  const auto start = std::chrono::steady_clock::now();
  const lathe_status status = call();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (absl::Status s = check(status); !s.ok()) return s;
  return seconds;
}

absl::StatusOr<Measurement> measure(lathe_context* context, int64_t repeats,
                                    const std::function<lathe_status()>& call) {
  Measurement m;
  auto before = statistics(context);
  auto first = time_call(call);
  auto after = statistics(context);
  if (!before.ok()) return before.status();
  if (!first.ok()) return first.status();
  if (!after.ok()) return after.status();
  m.first = *first;
  m.before = *before;
  m.after_first = *after;
  for (int64_t i = 0; i < repeats; ++i) {
    auto seconds = time_call(call);
    if (!seconds.ok()) return seconds.status();
    m.repeats.push_back(*seconds);
  }
  std::sort(m.repeats.begin(), m.repeats.end());
  return m;
}

// What a run has to say, filled by either op.
struct Report {
  std::string title;
  Measurement time;
  double flops = 0, bytes = 0;
  Json plan;  // null when the request needs no kernel
  CheckResult check;
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
              {"gb_per_second", r.bytes / median / 1e9},
              {"cache_outcome", r.time.outcome()},
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
  absl::PrintF("  then       %-9s median of %d, %s to %s; operands in place, caches warm\n", duration(median),
               r.time.repeats.size(), duration(r.time.repeats.front()), duration(r.time.repeats.back()));
  if (r.flops > 0)
    absl::PrintF("  rate       %.4g GFLOP/s, %.4g GB/s\n", r.flops / median / 1e9, r.bytes / median / 1e9);
  else
    absl::PrintF("  rate       %.4g GB/s\n", r.bytes / median / 1e9);
  if (!r.plan.is_null()) {
    absl::PrintF("  plan       %s, predicted %s\n", choice_line(r.plan),
                 duration(r.plan.value("predicted_seconds", 0.0)));
  }
  absl::PrintF("  check      %s: %s\n", r.check.ok ? "right" : "WRONG", r.check.what);
  if (r.check.ok && r.check.worst > 0) {
    absl::PrintF("             %d of %d elements against float64, worst error %.2g of its bound\n",
                 r.check.checked, r.check.total, r.check.worst);
  }
  absl::PrintF("  seed       %d\n", r.seed);
}

absl::Status finish(const Arguments& arguments, const Report& report) {
  arguments.has("json") ? print_json(report) : print_text(report);
  if (report.check.ok) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("wrong result: ", report.check.what));
}

// What both ops read from the command line and need to run.
struct Setup {
  Context context;
  Device device;
  std::string device_name;
  int64_t repeats = 0;
  uint64_t seed = 0;
};

absl::StatusOr<Setup> set_up(const Arguments& arguments) {
  Setup s;
  auto repeats = arguments.integer("repeat", 10, 1, 1000000);
  if (!repeats.ok()) return repeats.status();
  auto seed = arguments.integer("seed", static_cast<int64_t>(std::random_device()()), 0, INT64_MAX);
  if (!seed.ok()) return seed.status();
  auto context = make_context(arguments);
  if (!context.ok()) return context.status();
  auto device = open_device(context->get(), arguments);
  if (!device.ok()) return device.status();
  s.context = std::move(*context);
  s.device = std::move(*device);
  s.device_name = arguments.text("device", "cpu");
  // The tool keeps its operands in host memory.
  if (s.device_name.rfind("cpu", 0) != 0) {
    return absl::UnavailableError(
        absl::StrCat("run needs a device that reads host memory, not ", s.device_name));
  }
  s.repeats = *repeats;
  s.seed = static_cast<uint64_t>(*seed);
  return s;
}

template <typename Desc, typename PlanFn>
absl::StatusOr<Json> explain_plan(lathe_device* device, const Desc& desc, PlanFn make_plan) {
  lathe_plan* made = nullptr;
  if (absl::Status s = check(make_plan(device, &desc, &made)); !s.ok()) return s;
  const Plan plan(made);
  return explain(plan.get());
}

const char* name_of(lathe_dtype t) {
  switch (t) {
    case LATHE_F32: return "f32";
    case LATHE_F16: return "f16";
    case LATHE_BF16: return "bf16";
    default: return "?";
  }
}

absl::StatusOr<int64_t> elements(int64_t a, int64_t b, int64_t c) {
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || __builtin_mul_overflow(product, c, &product) ||
      product > kMost) {
    return absl::InvalidArgumentError(
        absl::StrFormat("an operand of %d x %d x %d elements does not fit memory", a, b, c));
  }
  return product;
}

// Fresh normal operands, a poisoned result.
absl::StatusOr<MatmulData> make_data(const MatmulRequest& r, Normal* random) {
  auto a = elements(r.batch, r.m, r.k), b = elements(r.batch, r.k, r.n), d = elements(r.batch, r.m, r.n);
  if (!a.ok()) return a.status();
  if (!b.ok()) return b.status();
  if (!d.ok()) return d.status();
  MatmulData data;
  data.a = Array(*a, r.dtype);
  data.b = Array(*b, r.dtype);
  data.d = Array(*d, r.out_dtype);
  if (r.beta != 0) data.c = Array(*d, r.out_dtype);
  if (r.bias) data.bias = Array(r.n, r.out_dtype);
  if (r.residual) data.residual = Array(*d, r.out_dtype);
  for (Array* array : {&data.a, &data.b, &data.c, &data.bias, &data.residual}) random->fill(array);
  data.d.poison();
  return data;
}

absl::Status run_matmul(const Arguments& arguments) {
  auto request = matmul_request_with_shape(arguments);
  if (!request.ok()) return request.status();
  auto setup = set_up(arguments);
  if (!setup.ok()) return setup.status();
  const MatmulRequest& r = *request;
  Normal random(setup->seed);
  auto data = make_data(r, &random);
  if (!data.ok()) return data.status();

  lathe_tuning tuning;
  lathe_matmul_desc desc = descriptor(r, &tuning);
  desc.a.data = data->a.data();
  desc.b.data = data->b.data();
  desc.c.data = r.beta != 0 ? data->c.data() : nullptr;
  desc.d.data = data->d.data();
  desc.epilogue.bias = r.bias ? data->bias.data() : nullptr;
  desc.epilogue.residual.data = r.residual ? data->residual.data() : nullptr;
  const auto call = [&] { return lathe_matmul(setup->device.get(), nullptr, &desc); };

  Report report;
  report.title =
      absl::StrFormat("matmul %s %s layout %s batch %d on %s", arguments.words[0], name_of(r.dtype),
                      arguments.text("layout", "nt"), r.batch, setup->device_name);
  report.seed = setup->seed;
  auto time = measure(setup->context.get(), setup->repeats, call);
  if (!time.ok()) return time.status();
  report.time = *time;
  data->d.poison();
  if (absl::Status s = check(call()); !s.ok()) return s;
  report.check = check_matmul(r, *data, &random);
  report.flops = 2.0 * r.batch * r.m * r.n * r.k;
  for (const Array* array : {&data->a, &data->b, &data->c, &data->bias, &data->residual, &data->d}) {
    report.bytes += array->bytes.size();
  }
  if (report.flops > 0) {
    auto plan = explain_plan(setup->device.get(), desc, lathe_plan_matmul);
    if (!plan.ok()) return plan.status();
    report.plan = *plan;
  }
  return finish(arguments, report);
}

absl::Status run_argmax(const Arguments& arguments) {
  auto request = argmax_request(arguments);
  if (!request.ok()) return request.status();
  auto setup = set_up(arguments);
  if (!setup.ok()) return setup.status();
  const ArgmaxRequest& r = *request;
  auto count = elements(r.rows, r.n, 1);
  if (!count.ok()) return count.status();
  Normal random(setup->seed);
  Array x(*count, r.dtype), indices(r.rows, r.index_dtype), values(r.values ? r.rows : 0, LATHE_F32);
  random.fill(&x);
  indices.poison();
  values.poison();

  lathe_argmax_desc desc = descriptor(r);
  desc.x.data = x.data();
  desc.indices = indices.data();
  desc.values = r.values ? static_cast<float*>(values.data()) : nullptr;
  const auto call = [&] { return lathe_argmax(setup->device.get(), nullptr, &desc); };

  Report report;
  report.title =
      absl::StrFormat("argmax %s %s on %s", arguments.words[0], name_of(r.dtype), setup->device_name);
  report.seed = setup->seed;
  auto time = measure(setup->context.get(), setup->repeats, call);
  if (!time.ok()) return time.status();
  report.time = *time;
  indices.poison();
  values.poison();
  if (absl::Status s = check(call()); !s.ok()) return s;
  report.check = check_argmax(r, x, indices, values);
  for (const Array* array : {&x, &indices, &values}) report.bytes += array->bytes.size();
  if (r.rows > 0) {
    auto plan = explain_plan(setup->device.get(), desc, lathe_plan_argmax);
    if (!plan.ok()) return plan.status();
    report.plan = *plan;
  }
  return finish(arguments, report);
}

std::vector<Flag> run_flags() {
  return {{"repeat", "N", "calls timed after the first (default: 10)"},
          {"seed", "S", "of the random inputs (default: a fresh one, printed)"},
          device_flag(),
          {"json", nullptr, "as JSON"}};
}

}  // namespace

Verb run_matmul_verb() {
  return {"run matmul",
          "MxNxK",
          1,
          "run a matmul on random inputs, check it against float64, time it",
          matmul_flags(run_flags()),
          {"lathe run matmul 123x456x51234 --dtype f32",
           "lathe run matmul 64x4096x4096 --dtype bf16 --epilogue bias,gelu,residual"},
          run_matmul};
}

Verb run_argmax_verb() {
  return {"run argmax",
          "ROWSxN",
          1,
          "run an argmax on random inputs, check it, time it",
          argmax_flags(run_flags()),
          {"lathe run argmax 4x151936", "lathe run argmax 64x128256 --dtype bf16 --values"},
          run_argmax};
}

}  // namespace lathe::cli
