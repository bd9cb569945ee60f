// C functions: calibration.
#include "api/boundary.h"
#include "api/c_arguments.h"
#include "tune/calibrate.h"

extern "C" lathe_status lathe_calibrate(lathe_context* context, const lathe_calibrate_options* options,
                                        lathe_calibrate_report* report) {
  return lathe::at_boundary([&]() -> absl::Status {
    if (context == nullptr) return lathe::null_argument("lathe_calibrate", "context");
    lathe_calibrate_report unwanted = LATHE_CALIBRATE_REPORT_INIT;
    if (report != nullptr) LATHE_RETURN_IF_ERROR(lathe::check_out_struct("lathe_calibrate_report", report));
    LATHE_ASSIGN_OR_RETURN(const lathe::CalibrateRequest request, lathe::read_calibrate_options(options));
    return lathe::calibrate(*context, request, report != nullptr ? report : &unwanted);
  });
}
