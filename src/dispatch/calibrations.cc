#include "dispatch/calibrations.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "observe/text_file.h"
#include "options/path_options.h"

namespace lathe {

std::string calibration_path(const ContextOptions& options, bool cache_refused) {
  return cache_refused && options.calibration == calibration_beside(options.cache_dir) ? ""
                                                                                       : options.calibration;
}

CalibrationFile read_calibrations(const ContextOptions& options, const std::string& path,
                                  const Logger& logger) {
  if (path.empty()) return {};
  const absl::StatusOr<std::string> text = read_text_file(path);
  if (absl::IsNotFound(text.status()) && path == calibration_beside(options.cache_dir)) return {};
  absl::StatusOr<CalibrationFile> read =
      text.ok() ? parse_calibrations(*text) : absl::StatusOr<CalibrationFile>(text.status());
  CalibrationFile file;
  const bool whole = read.ok();
  if (whole)
    file = *std::move(read);
  else
    file.refused.push_back(std::string(read.status().message()));
  file.path = path;
  if (!file.refused.empty())
    logger.log(
        LogLevel::kWarning,
        absl::StrCat("calibration: ", text.ok() ? absl::StrCat(path, ": ") : "", file.refused.front(),
                     file.refused.size() > 1 ? absl::StrCat(" (and ", file.refused.size() - 1, " more)") : "",
                     whole ? "; damaged entries are ignored"
                           : "; the facts of tables and of the system are used instead"));
  return file;
}

}  // namespace lathe
