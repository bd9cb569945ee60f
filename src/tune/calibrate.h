// Calibration: measures the facts of the CPU device and stores them in a file that contexts read (core/calibration.h).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "dispatch/context.h"
#include "lathe/calibrate.h"
#include "runtime/driver.h"

namespace lathe {

struct CalibrateRequest {
  std::string device = "cpu";
  CalibrateOptions measure;
  std::string output;  // a calibration file to add the machine to; "": none
  lathe_text_fn text = nullptr;
  void* text_user = nullptr;
};
// `options` may be null, which gives the defaults. kInvalidArgument names the wrong field.
absl::StatusOr<CalibrateRequest> read_calibrate_options(const lathe_calibrate_options* options);

// Measures, stores and reports, as lathe_calibrate does.
absl::Status calibrate(lathe_context& context, const CalibrateRequest& request,
                       lathe_calibrate_report* report);

}  // namespace lathe
