// A context's statistics as Prometheus reads them, and the file that they are written to.
#pragma once

#include <functional>
#include <string>

#include "base/log.h"
#include "base/own_thread.h"
#include "lathe/lathe.h"

namespace lathe {

// Prometheus' text format, one metric a statistic: names in docs/for-engines.md.
std::string metrics_text(const lathe_statistics& statistics);

// Writes `text()` to `path` ("%p": the process' id), whole each time, every few seconds and at its end, from
// a thread of its own. A child of a fork writes nothing.
class MetricsFile {
 public:
  // `path` "": no file and no thread.
  MetricsFile(const std::string& path, const Logger& logger, std::function<std::string()> text);
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  ~MetricsFile();

 private:
  void work() noexcept;
  bool write() noexcept;

  const std::string path_;
  const Logger& logger_;
  const std::function<std::string()> text_;
  OwnThread thread_;
};

}  // namespace lathe
