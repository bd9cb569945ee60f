#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/cpu/cpu_driver.h"
#include "runtime/cuda/cuda_driver.h"
#include "runtime/driver.h"
#include "runtime/hip/hip_driver.h"
#include "runtime/spirv/spirv_driver.h"

namespace lathe {

const std::vector<BackendRow>& backends() {
  // Never destroyed: a thread may still use it while the process exits.
  static const auto& rows = *new std::vector<BackendRow>{
      {"cpu", enumerate_cpu, query_cpu, open_cpu},
      {"cuda", enumerate_cuda, query_cuda, open_cuda},
      {"hip", enumerate_hip, query_hip, open_hip},
      {"spirv", enumerate_spirv, query_spirv, open_spirv},
  };
  return rows;
}

absl::StatusOr<std::unique_ptr<Driver>> open_driver(absl::string_view name, const DriverOptions& options) {
  const absl::string_view prefix = name.substr(0, name.find(':'));
  std::string known;
  for (const BackendRow& row : backends()) {
    if (prefix == row.prefix) return row.open(name, options);
    absl::StrAppend(&known, known.empty() ? "" : ", ", row.prefix);
  }
  return absl::InvalidArgumentError(absl::StrCat("no device ", name, ": known backends are ", known));
}

}  // namespace lathe
