// A context's statistics as Prometheus reads them, and the file that they are written to.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/log.h"
#include "base/own_thread.h"
#include "lathe/lathe.h"

namespace lathe {

// Prometheus' text format, one metric for each statistic (docs/troubleshooting.md).
std::string metrics_text(const lathe_statistics& statistics);

// Prometheus scrapes every 15 seconds or less often.
constexpr std::chrono::milliseconds kMetricsPeriod(5000);

// Writes `text()` to `path` ("%p": the process' id), whole each time, every few seconds and at its end, from
// a thread of its own. What cannot be written is a warning, once, and is tried again. A child of a fork
// writes nothing.
class MetricsFile {
 public:
  // `path` "": no file and no thread.
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
  bool warned_ = false;  // the thread's, and after it the destructor's
  OwnThread thread_;
};

}  // namespace lathe
