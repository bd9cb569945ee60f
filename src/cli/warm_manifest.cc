#include "cli/warm_manifest.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "cli/warm_bar.h"

namespace lathe::cli {
namespace {

absl::StatusOr<lathe_warmup_options> warmup_options(const Arguments& arguments) {
  lathe_warmup_options options = LATHE_WARMUP_OPTIONS_INIT;
  absl::StatusOr<int64_t> jobs = arguments.integer("jobs", 0, 1, 1024);
  if (!jobs.ok()) return jobs.status();
  absl::StatusOr<int64_t> deadline = arguments.integer("deadline", 0, 1, 1000000);
  if (!deadline.ok()) return deadline.status();
  options.parallelism = static_cast<int32_t>(*jobs);
  options.deadline_nanoseconds = static_cast<uint64_t>(*deadline) * 1000000000u;
  if (arguments.has("no-compile")) options.miss_policy = LATHE_MISS_ERROR;
  return options;
}

}  // namespace

absl::StatusOr<Manifest> make_manifest() {
  lathe_manifest* manifest = nullptr;
  if (absl::Status s = check(lathe_manifest_create(&manifest)); !s.ok()) return s;
  return Manifest(manifest);
}

absl::StatusOr<Opened> open(const Arguments& arguments) {
  absl::StatusOr<Context> context = make_context(arguments);
  if (!context.ok()) return context.status();
  absl::StatusOr<Device> device = open_device(context->get(), arguments);
  if (!device.ok()) return device.status();
  return Opened{std::move(*context), std::move(*device)};
}

absl::Status warm_manifest(const Arguments& arguments, const Opened& opened, const lathe_manifest* manifest) {
  absl::StatusOr<lathe_warmup_options> options = warmup_options(arguments);
  if (!options.ok()) return options.status();
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  lathe_status status = LATHE_OK;
  const absl::Status outcome = run_with_bar(*options, [&](const lathe_warmup_options& with_bar) {
    status = lathe_warmup(opened.device.get(), manifest, &with_bar, &report);
    return check(status);
  });
  if (status == LATHE_INVALID_ARGUMENT) return outcome;
  absl::StatusOr<lathe_statistics> s = statistics(opened.context.get());
  if (!s.ok()) return s.status();
  absl::PrintF("%d %s: %d compiled, %d loaded", report.classes, report.classes == 1 ? "class" : "classes",
               report.compiled, report.loaded + report.present);
  if (report.failed > 0) absl::PrintF(", %d failed", report.failed);
  if (report.skipped > 0) absl::PrintF(", %d not started", report.skipped);
  absl::PrintF(", %.1f s; compiler library %s\n", report.milliseconds / 1e3,
               s->compiler_loaded ? "loaded" : "never loaded");
  return outcome;
}

std::vector<Flag> warm_flags() {
  return {{"jobs", "N", "number of threads that compile (default: --workers)"},
          {"deadline", "SECONDS", "start no kernel after this many seconds"},
          {"no-compile", nullptr, "only load kernels from the cache and bundles; a missing one is a failure"},
          facts_flag(),
          target_flag(),
          device_flag()};
}

}  // namespace lathe::cli
