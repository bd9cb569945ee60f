// Writes a context's statistics to a file in the format of Prometheus.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/log.h"
#include "base/own_thread.h"
#include "lathe/lathe.h"

namespace lathe {

// The statistics in Prometheus' text format, one metric for each (docs/troubleshooting.md).
std::string metrics_text(const lathe_statistics& statistics);

// Prometheus scrapes every 15 seconds or less often.
constexpr std::chrono::milliseconds kMetricsPeriod(5000);

// Replaces the file `path` ("%p": the process id) with text() every `period` and in the destructor. Uses a thread of
// its own. If writing fails, it warns once and keeps trying. A child of a fork writes nothing.
class MetricsFile {
 public:
  // An empty `path` starts no thread and writes no file.
  MetricsFile(const std::string& path, const Logger& logger, std::function<std::string()> text,
              std::chrono::milliseconds period = kMetricsPeriod);
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  ~MetricsFile();

 private:
  void work() noexcept;
  void write() noexcept;

  const std::string path_;
  const Logger& logger_;
  const std::function<std::string()> text_;
  const std::chrono::milliseconds period_;
  bool warned_ = false;  // used by the thread, and by the destructor once the thread has ended
  OwnThread thread_;
};

}  // namespace lathe
