// C functions: tuning of a manifest. The functions that tune one request are in c_ops.cc.
#include "api/boundary.h"
#include "api/tune_call.h"

using lathe::at_boundary;

extern "C" {

lathe_status lathe_tune(lathe_device* device, const lathe_manifest* manifest,
                        const lathe_tune_options* options, lathe_tune_report* report) {
  return at_boundary([&]() -> absl::Status {
    lathe::TuneCall c;
    LATHE_RETURN_IF_ERROR(
        lathe::begin_tuning("lathe_tune", device, manifest, "manifest", options, report, &c));
    return lathe::tune(*device, lathe::classes_on(*device, manifest->manifest), nullptr, c.options, c.report);
  });
}

}  // extern "C"
