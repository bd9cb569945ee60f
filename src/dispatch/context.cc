#include "dispatch/context.h"

#include <utility>

#include "core/json_object.h"

namespace {

// Whether there is a cache directory that must not be used, because others may write to it.
bool is_cache_refused(const lathe_context& context) {
  return !context.options.cache_dir.empty() && context.cache->directory().empty();
}

// The directory of users' ukernels. If the cache directory was refused, code in it must not run, so the ukernels
// beside the cache are not used either.
std::string ukernels_directory(const lathe_context& context) {
  const bool beside_cache = context.options.ukernels == context.options.cache_dir + "/ukernels";
  return is_cache_refused(context) && beside_cache ? "" : context.options.ukernels;
}

lathe::CompilerProcessOptions process_options(const lathe::ContextOptions& options) {
  lathe::CompilerProcessOptions process;
  process.executable = options.compiler_program;
  process.compiler_path = options.compiler_library;
  process.request_seconds = options.compiler_seconds;
  process.memory_bytes = options.compiler_bytes;
  return process;
}

std::unique_ptr<lathe::Compiler> compiler_for(const lathe::ContextOptions& options) {
  if (options.compiler_in_process) return std::make_unique<lathe::CompilerLibrary>(options.compiler_library);
  return std::make_unique<lathe::CompilerProcesses>(process_options(options));
}

}  // namespace

lathe_context::lathe_context(lathe::ContextOptions given, std::unique_ptr<lathe::ArtifactCache> own_cache)
    : options(std::move(given)),
      logger(options.log_level, options.log_sink),
      cache(own_cache != nullptr ? std::move(own_cache)
                                 : lathe::make_cache(lathe::cache_options(options, logger))),
      compiler(compiler_for(options)),
      readers(process_options(options)),
      tuning(options.tuning, logger),
      calibration_path(lathe::calibration_path(options, is_cache_refused(*this))),
      calibrations(lathe::read_calibrations(options, calibration_path, logger)),
      ukernels(ukernels_directory(*this), logger),
      fallback(options.fallback_bundle),
      misses(options.miss_policy),
      miss_manifest(options.record, logger),
      trace(options.trace, logger),
      background(logger, options.most_waiting),
      metrics(options.metrics, logger, [this] {
        lathe_statistics statistics = LATHE_STATISTICS_INIT;
        lathe::read_statistics(*this, &statistics);
        return lathe::metrics_text(statistics);
      }) {}

namespace lathe {

CacheOptions cache_options(const ContextOptions& from, const Logger& logger) {
  CacheOptions options;
  options.directory = from.cache_dir;
  options.cap_bytes = from.cache_bytes;
  options.bundles = from.bundles;
  options.remote = from.remote;
  options.lock_timeout_seconds = from.compiler_seconds;
  options.logger = logger;
  return options;
}

absl::StatusOr<UserUkernel> check_ukernel(const lathe_context& context, absl::string_view description,
                                          absl::string_view bitcode) {
  CompilerProcesses process(process_options(context.options));
  LATHE_ASSIGN_OR_RETURN(const Json checked, process.check_ukernel(description, bitcode));
  LATHE_ASSIGN_OR_RETURN(UserUkernel ukernel, user_ukernel_from_json(checked));
  ukernel.bitcode = std::string(bitcode);
  return ukernel;
}

absl::Status read_pipelines(lathe_context* context) {
  const ContextOptions& options = context->options;
  if (options.pipelines.empty()) return absl::OkStatus();
  CompilerProcesses process(process_options(options));
  return context->pipelines.read(process, options.pipelines, options.pipeline_parameters);
}

void read_statistics(const lathe_context& context, lathe_statistics* out) {
  const CacheStatistics cache = context.cache->statistics();
  const Counters& counters = context.counters;
  out->dispatch_hits = counters.dispatch_hits.total();
  out->dispatch_misses = counters.dispatch_misses.load(std::memory_order_relaxed);
  out->memory_hits = cache.memory_hits + counters.loaded_hits.load(std::memory_order_relaxed);
  out->disk_hits = cache.disk_hits;
  out->compiles = counters.compiles.load(std::memory_order_relaxed);
  out->compile_failures = counters.compile_failures.load(std::memory_order_relaxed);
  out->disk_rejects = cache.disk_rejects;
  out->compile_milliseconds =
      static_cast<double>(counters.compile_nanoseconds.load(std::memory_order_relaxed)) * 1e-6;
  out->compiler_load_milliseconds = context.compiler->load_milliseconds();
  out->disk_load_milliseconds = cache.disk_load_seconds * 1e3;
  out->link_milliseconds =
      static_cast<double>(counters.link_nanoseconds.load(std::memory_order_relaxed)) * 1e-6;
  out->artifact_bytes = cache.memory_bytes;
  out->disk_bytes_read = cache.disk_bytes_read;
  out->disk_bytes_written = cache.disk_bytes_written;
  out->fallback_runs = counters.fallback_runs.load(std::memory_order_relaxed);
  out->bundle_hits = cache.bundle_hits;
  out->evictions = cache.evictions;
  out->kernel_loads = counters.kernel_loads.load(std::memory_order_relaxed);
  out->background_compiles = counters.background_compiles.load(std::memory_order_relaxed);
  out->background_refused = counters.background_refused.load(std::memory_order_relaxed);
  out->background_waiting = context.background.waiting();
  out->remote_hits = cache.remote_hits;
  out->remote_rejects = cache.remote_rejects;
  out->compiler_loaded = context.compiler->mapped() ? 1 : 0;
}

absl::StatusOr<Json> cache_json(lathe_context& context) {
  LATHE_ASSIGN_OR_RETURN(const CacheListing listing, context.cache->list());
  uint64_t bytes = 0, hits = listing.hits_of_removed, made = listing.made_of_removed;
  Json entries(Json::value_t::array), defects(Json::value_t::array), records(Json::value_t::array);
  for (const CacheEntryInfo& entry : listing.entries) {
    absl::StatusOr<Json> key = parse_json(entry.key_text, "cache key");
    absl::StatusOr<Json> metadata = parse_json(entry.metadata, "metadata");
    entries.push_back(json_object("file", entry.file, "bytes", entry.bytes, "format",
                                  std::string(name_of(entry.format)), "age_seconds", entry.age_seconds,
                                  "hits", entry.hits, "made", entry.made, "metadata",
                                  metadata.ok() ? *std::move(metadata) : Json::object(), "key",
                                  key.ok() ? *std::move(key) : Json(entry.key_text)));
    bytes += entry.bytes;
    hits += entry.hits;
    made += entry.made;
  }
  for (const CacheDefect& defect : listing.defects)
    defects.push_back(json_object("file", defect.file, "cause", defect.cause));
  for (const CacheRecordInfo& record : listing.records) {
    absl::StatusOr<Json> key = parse_json(record.key_text, "record key");
    records.push_back(
        json_object("file", record.file, "bytes", record.bytes, "age_seconds", record.age_seconds, "key",
                    key.ok() ? *std::move(key) : Json(record.key_text), "record", to_json(record.record)));
  }
  const uint64_t cap = context.cache->cap_bytes();
  return json_object("directory", context.cache->directory(), "cap_bytes",
                     cap == kNoCap ? Json(nullptr) : Json(cap), "bytes", bytes, "hits", hits, "made", made,
                     "rejected", listing.defects.size(), "defects", std::move(defects), "entries",
                     std::move(entries), "records", std::move(records));
}

}  // namespace lathe
