// The calibration file of a context (core/calibration.h), which is read once.
#pragma once

#include <string>

#include "base/log.h"
#include "core/calibration.h"
#include "options/options.h"

namespace lathe {

// The path of the context's calibration file; "" if there is none. If the cache directory was refused, a file in it
// is not trusted either.
std::string calibration_path(const ContextOptions& options, bool cache_refused);

// The calibrations in the file. A file beside the cache that does not exist is no file. Any other file that cannot be
// read, and damaged entries, are logged as one warning.
CalibrationFile read_calibrations(const ContextOptions& options, const std::string& path,
                                  const Logger& logger);

}  // namespace lathe
