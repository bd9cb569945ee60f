// The arguments that all functions for tuning share, checked.
#pragma once

#include "api/c_arguments.h"
#include "tune/tune.h"

namespace lathe {

struct TuneCall {
  lathe_tune_report unwanted = LATHE_TUNE_REPORT_INIT;
  lathe_tune_report* report = nullptr;  // the caller's, or `unwanted`
  TuneOptions options;
};

// `subject` is the manifest or descriptor.
inline absl::Status begin_tuning(const char* call, const lathe_device* device, const void* subject,
                                 const char* subject_name, const lathe_tune_options* options,
                                 lathe_tune_report* report, TuneCall* out) {
  if (device == nullptr) return null_argument(call, "device");
  if (subject == nullptr) return null_argument(call, subject_name);
  if (report != nullptr) LATHE_RETURN_IF_ERROR(check_out_struct("lathe_tune_report", report));
  out->report = report != nullptr ? report : &out->unwanted;
  LATHE_ASSIGN_OR_RETURN(out->options, read_tune_options(device->context, options));
  return absl::OkStatus();
}

}  // namespace lathe
