#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "runtime/cpu/cpu_driver.h"
#include "runtime/cuda/cuda_driver.h"
#include "runtime/driver.h"
#include "runtime/hip/hip_driver.h"
#include "runtime/spirv/spirv_driver.h"

namespace lathe {

const std::vector<BackendRow>& backends() {
  // Never destroyed: a thread may still use it while the process exits.
  static const auto& rows = *new std::vector<BackendRow>{
      {"cpu", enumerate_cpu, query_cpu, open_cpu, calibrate_cpu},
      {"cuda", enumerate_cuda, query_cuda, open_cuda, nullptr},
      {"hip", enumerate_hip, query_hip, open_hip, nullptr},
      {"spirv", enumerate_spirv, query_spirv, open_spirv, nullptr},
  };
  return rows;
}

namespace {

absl::StatusOr<const BackendRow*> row_of(absl::string_view name) {
  const absl::string_view prefix = name.substr(0, name.find(':'));
  std::string known;
  for (const BackendRow& row : backends()) {
    if (prefix == row.prefix) return &row;
    absl::StrAppend(&known, known.empty() ? "" : ", ", row.prefix);
  }
  return absl::InvalidArgumentError(absl::StrCat("no device ", name, ": known backends are ", known));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Driver>> open_driver(absl::string_view name, const DriverOptions& options) {
  LATHE_ASSIGN_OR_RETURN(const BackendRow* row, row_of(name));
  return row->open(name, options);
}

absl::Status check_calibratable(absl::string_view name) {
  LATHE_ASSIGN_OR_RETURN(const BackendRow* row, row_of(name));
  if (row->calibrate != nullptr) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("calibrate: ", name, " cannot be measured; only the device cpu can"));
}

absl::StatusOr<Calibrated> calibrate_device(absl::string_view name, const DriverOptions& options,
                                            const CalibrateOptions& calibrate) {
  LATHE_ASSIGN_OR_RETURN(const BackendRow* row, row_of(name));
  LATHE_RETURN_IF_ERROR(check_calibratable(name));
  return row->calibrate(name, options, calibrate);
}

}  // namespace lathe
