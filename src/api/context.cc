#include "api/context.h"

#include <utility>

namespace {

std::unique_ptr<lathe::ArtifactCache> cache_for(const lathe_context& context) {
  lathe::CacheOptions options;
  options.directory = context.options.cache_dir;
  options.logger = context.logger;
  return lathe::make_cache(options);
}

}  // namespace

lathe_context::lathe_context(lathe::ContextOptions given, std::unique_ptr<lathe::ArtifactCache> own_cache)
    : options(std::move(given)),
      logger(options.log_level, options.log_sink),
      cache(own_cache != nullptr ? std::move(own_cache) : cache_for(*this)),
      compiler(options.compiler_library),
      fallback(options.fallback_bundle),
      background(logger) {}

namespace lathe {

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
  out->compiler_load_milliseconds = context.compiler.load_milliseconds();
  out->disk_load_milliseconds = cache.disk_load_seconds * 1e3;
  out->link_milliseconds =
      static_cast<double>(counters.link_nanoseconds.load(std::memory_order_relaxed)) * 1e-6;
  out->artifact_bytes = cache.memory_bytes;
  out->disk_bytes_read = cache.disk_bytes_read;
  out->disk_bytes_written = cache.disk_bytes_written;
  out->fallback_runs = counters.fallback_runs.load(std::memory_order_relaxed);
  out->compiler_loaded = context.compiler.mapped() ? 1 : 0;
}

Json cache_json(lathe_context& context) {
  uint64_t rejected = 0, bytes = 0;
  Json entries = Json::array();
  for (const CacheEntryInfo& entry : context.cache->list(&rejected)) {
    absl::StatusOr<Json> key = parse_json(entry.key_text, "cache key");
    entries.push_back({{"file", entry.file},
                       {"bytes", entry.bytes},
                       {"key", key.ok() ? *std::move(key) : Json(entry.key_text)}});
    bytes += entry.bytes;
  }
  return {{"directory", context.cache->directory()},
          {"entries", std::move(entries)},
          {"bytes", bytes},
          {"rejected", rejected}};
}

}  // namespace lathe
