// The log sink. A context owns it and passes it to its parts. The path of a cache hit never logs.
#pragma once

#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace lathe {

enum class LogLevel { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3 };

class Logger {
 public:
  using Sink = std::function<void(LogLevel, const std::string&)>;
  Logger() = default;
  Logger(LogLevel level, Sink sink) : level_(level), sink_(std::move(sink)) {}

  bool enabled(LogLevel level) const { return sink_ && level <= level_; }
  void log(LogLevel level, absl::string_view message) const {
    if (enabled(level)) sink_(level, std::string(message));
  }

 private:
  LogLevel level_ = LogLevel::kWarning;
  Sink sink_;
};

}  // namespace lathe
