#include "observe/metrics.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "observe/number_text.h"
#include "observe/text_file.h"

namespace lathe {
namespace {

struct Row {
  const char* name;
  const char* type;
  const char* help;
  double (*value)(const lathe_statistics&);
};

const Row kRows[] = {
    // clang-format off
    {"lathe_dispatch_hits_total", "counter", "calls served by the dispatch table", [](const lathe_statistics& s) { return static_cast<double>(s.dispatch_hits); }},
    {"lathe_dispatch_misses_total", "counter", "calls whose class the table did not hold", [](const lathe_statistics& s) { return static_cast<double>(s.dispatch_misses); }},
    {"lathe_memory_hits_total", "counter", "misses served by an artifact in memory", [](const lathe_statistics& s) { return static_cast<double>(s.memory_hits); }},
    {"lathe_disk_hits_total", "counter", "misses served by the cache directory", [](const lathe_statistics& s) { return static_cast<double>(s.disk_hits); }},
    {"lathe_bundle_hits_total", "counter", "misses served by a bundle", [](const lathe_statistics& s) { return static_cast<double>(s.bundle_hits); }},
    {"lathe_remote_hits_total", "counter", "misses served by the remote store", [](const lathe_statistics& s) { return static_cast<double>(s.remote_hits); }},
    {"lathe_remote_rejects_total", "counter", "entries of the remote store that were refused, each a miss", [](const lathe_statistics& s) { return static_cast<double>(s.remote_rejects); }},
    {"lathe_compiles_total", "counter", "kernels compiled", [](const lathe_statistics& s) { return static_cast<double>(s.compiles); }},
    {"lathe_compile_failures_total", "counter", "kernels that failed to compile", [](const lathe_statistics& s) { return static_cast<double>(s.compile_failures); }},
    {"lathe_compile_seconds_total", "counter", "time inside the compiler", [](const lathe_statistics& s) { return s.compile_milliseconds * 1e-3; }},
    {"lathe_compiler_load_seconds", "gauge", "time to load the compiler library", [](const lathe_statistics& s) { return s.compiler_load_milliseconds * 1e-3; }},
    {"lathe_compiler_loaded", "gauge", "1 once the compiler library is mapped", [](const lathe_statistics& s) { return static_cast<double>(s.compiler_loaded); }},
    {"lathe_kernel_loads_total", "counter", "kernels loaded onto a device", [](const lathe_statistics& s) { return static_cast<double>(s.kernel_loads); }},
    {"lathe_kernel_load_seconds_total", "counter", "time loading them", [](const lathe_statistics& s) { return s.link_milliseconds * 1e-3; }},
    {"lathe_cache_rejects_total", "counter", "defective or foreign entries, each a miss", [](const lathe_statistics& s) { return static_cast<double>(s.disk_rejects); }},
    {"lathe_cache_read_seconds_total", "counter", "time reading and checking entries", [](const lathe_statistics& s) { return s.disk_load_milliseconds * 1e-3; }},
    {"lathe_cache_read_bytes_total", "counter", "bytes read from the cache directory", [](const lathe_statistics& s) { return static_cast<double>(s.disk_bytes_read); }},
    {"lathe_cache_written_bytes_total", "counter", "bytes written to the cache directory", [](const lathe_statistics& s) { return static_cast<double>(s.disk_bytes_written); }},
    {"lathe_cache_evictions_total", "counter", "entries removed to keep within the cap", [](const lathe_statistics& s) { return static_cast<double>(s.evictions); }},
    {"lathe_artifact_bytes", "gauge", "artifacts held in memory", [](const lathe_statistics& s) { return static_cast<double>(s.artifact_bytes); }},
    {"lathe_fallback_runs_total", "counter", "calls that ran on a generic kernel", [](const lathe_statistics& s) { return static_cast<double>(s.fallback_runs); }},
    {"lathe_background_compiles_total", "counter", "kernels made by the background thread", [](const lathe_statistics& s) { return static_cast<double>(s.background_compiles); }},
    {"lathe_background_refused_total", "counter", "misses that found its queue full", [](const lathe_statistics& s) { return static_cast<double>(s.background_refused); }},
    {"lathe_background_waiting", "gauge", "classes in its queue now", [](const lathe_statistics& s) { return static_cast<double>(s.background_waiting); }},
    // clang-format on
};

}  // namespace

std::string metrics_text(const lathe_statistics& statistics) {
  std::string text;
  for (const Row& row : kRows)
    absl::StrAppend(&text, "# HELP ", row.name, " ", row.help, "\n# TYPE ", row.name, " ", row.type, "\n",
                    row.name, " ", number_text("%.15g", row.value(statistics)), "\n");
  return text;
}

MetricsFile::MetricsFile(const std::string& path, const Logger& logger, std::function<std::string()> text,
                         std::chrono::milliseconds period)
    : path_(path_of_process(path)), logger_(logger), text_(std::move(text)), period_(period) {
  // If the thread cannot start, only the destructor writes the file.
  if (!path_.empty()) thread_.start([this] { work(); });
}

MetricsFile::~MetricsFile() {
  const bool writes = !path_.empty() && !thread_.is_of_parent();
  thread_.end();
  if (writes) write();
}

void MetricsFile::work() noexcept {
  std::unique_lock<std::mutex> lock(thread_.mutex);
  while (!thread_.stops) {
    lock.unlock();
    write();
    lock.lock();
    thread_.changed.wait_for(lock, period_, [this] { return thread_.stops; });
  }
}

void MetricsFile::write() noexcept {
  try {
    const absl::Status status = replace_text_file(path_, text_(), Durability::kWritten);
    if (!status.ok())
      logger_.log(std::exchange(warned_, true) ? LogLevel::kDebug : LogLevel::kWarning,
                  absl::StrCat("metrics: ", status.message()));
  } catch (...) {
    // Out of memory, or a log callback threw.
  }
}

}  // namespace lathe
