#include "base/log.h"

#include <gtest/gtest.h>

#include <vector>

namespace lathe {
namespace {

TEST(LoggerTest, DropsMessagesBelowItsLevel) {
  std::vector<std::string> seen;
  const Logger logger(LogLevel::kWarning,
                      [&](LogLevel, const std::string& message) { seen.push_back(message); });
  logger.log(LogLevel::kError, "error");
  logger.log(LogLevel::kWarning, "warning");
  logger.log(LogLevel::kInfo, "info");
  EXPECT_EQ(seen, (std::vector<std::string>{"error", "warning"}));
  EXPECT_FALSE(logger.enabled(LogLevel::kDebug));
}

TEST(LoggerTest, LogsNothingWithoutASink) {
  const Logger logger;
  EXPECT_FALSE(logger.enabled(LogLevel::kError));
  logger.log(LogLevel::kError, "there is no sink");
}

}  // namespace
}  // namespace lathe
