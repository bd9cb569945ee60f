#include "runtime/spirv/spirv_driver.h"

#include "absl/strings/str_cat.h"

namespace lathe {
namespace {

absl::Status compile_only(absl::string_view name) {
  return absl::UnavailableError(absl::StrCat(
      name,
      ": not available, because SPIR-V is compile-only: Lathe compiles and caches such kernels for "
      "a described device (--target spirv64, pvc, bmg), but cannot run them"));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> enumerate_spirv() { return compile_only("spirv"); }
absl::StatusOr<DeviceFacts> query_spirv(absl::string_view name, const DriverOptions&) {
  return compile_only(name);
}
absl::StatusOr<std::unique_ptr<Driver>> open_spirv(absl::string_view name, const DriverOptions&) {
  return compile_only(name);
}

}  // namespace lathe
