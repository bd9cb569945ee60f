// C functions: tuning.
#include "api/boundary.h"
#include "api/c_arguments.h"
#include "tune/tune.h"

using lathe::at_boundary;
using lathe::null_argument;
using lathe::Purpose;
using lathe::Request;

namespace {

struct Call {
  lathe_tune_report unwanted = LATHE_TUNE_REPORT_INIT;
  lathe_tune_report* report = nullptr;
  lathe::TuneOptions options;
};

absl::Status begin(const char* call, const lathe_device* device, const void* subject,
                   const char* subject_name, const lathe_tune_options* options, lathe_tune_report* report,
                   Call* out) {
  if (device == nullptr) return null_argument(call, "device");
  if (subject == nullptr) return null_argument(call, subject_name);
  if (report != nullptr) LATHE_RETURN_IF_ERROR(lathe::check_out_struct("lathe_tune_report", report));
  out->report = report != nullptr ? report : &out->unwanted;
  LATHE_ASSIGN_OR_RETURN(out->options, lathe::read_tune_options(device->context, options));
  return absl::OkStatus();
}

template <typename Desc, typename Read>
absl::Status tune_one(const char* call, lathe_device* device, const Desc* desc, Read read,
                      const lathe_tune_options* options, lathe_tune_report* report) {
  Call c;
  LATHE_RETURN_IF_ERROR(begin(call, device, desc, "desc", options, report, &c));
  Request request;
  LATHE_RETURN_IF_ERROR(read(desc, Purpose::kPlan, device->request_context(), nullptr, &request));
  if (request.needs_no_kernel() || request.dims.m == 0)
    return lathe::in_request(
        describe(request), device->name,
        absl::InvalidArgumentError("the request needs no kernel, so there is nothing to tune"));
  return lathe::tune(*device, {{request.key, request.dims.m, ""}}, &request.dims, c.options, c.report);
}

}  // namespace

extern "C" {

lathe_status lathe_tune(lathe_device* device, const lathe_manifest* manifest,
                        const lathe_tune_options* options, lathe_tune_report* report) {
  return at_boundary([&]() -> absl::Status {
    Call c;
    LATHE_RETURN_IF_ERROR(begin("lathe_tune", device, manifest, "manifest", options, report, &c));
    return lathe::tune(*device, lathe::classes_on(*device, manifest->manifest), nullptr, c.options, c.report);
  });
}

lathe_status lathe_tune_matmul(lathe_device* device, const lathe_matmul_desc* desc,
                               const lathe_tune_options* options, lathe_tune_report* report) {
  return at_boundary(
      [&] { return tune_one("lathe_tune_matmul", device, desc, lathe::read_matmul, options, report); });
}

lathe_status lathe_tune_argmax(lathe_device* device, const lathe_argmax_desc* desc,
                               const lathe_tune_options* options, lathe_tune_report* report) {
  return at_boundary(
      [&] { return tune_one("lathe_tune_argmax", device, desc, lathe::read_argmax, options, report); });
}

lathe_status lathe_tune_matmul_argmax(lathe_device* device, const lathe_matmul_argmax_desc* desc,
                                      const lathe_tune_options* options, lathe_tune_report* report) {
  return at_boundary([&] {
    return tune_one("lathe_tune_matmul_argmax", device, desc, lathe::read_matmul_argmax, options, report);
  });
}

}  // extern "C"
