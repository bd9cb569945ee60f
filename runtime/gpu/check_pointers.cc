#include "runtime/gpu/check_pointers.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "runtime/gpu/memory.h"

namespace lathe::gpu {
namespace {

absl::Status check_pointer(const Library& library, Device device, const char* name, const void* data) {
  if (data == nullptr) return absl::OkStatus();
  // HIP's memory types depend on its version, so device memory is recognised by its missing host pointer.
  const bool is_cuda = library.platform().is_cuda;
  unsigned type = 0;
  int ordinal = -1;
  DevicePointer on_device = 0, on_host = 0;
  int attributes[] = {is_cuda ? kPointerMemoryType : kPointerHostPointer, kPointerDeviceOrdinal,
                      kPointerDevicePointer};
  void* values[] = {is_cuda ? static_cast<void*>(&type) : &on_host, &ordinal, &on_device};
  const int result = library.call().pointer_attributes(3, attributes, values, address(data));
  if (result != kSuccess && result != kInvalidValue)
    return library.error(result, absl::StrCat("looking up ", name));
  const bool of_device = is_cuda ? type == kMemoryDevice : ordinal >= 0 && on_host == 0;
  if (result == kSuccess && of_device && ordinal != device)
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is in the memory of device ", ordinal, ", not ", device));
  // A pointer that the driver does not know has no type; older drivers fail to look it up.
  if (result != kSuccess || (is_cuda && type == 0) || on_device == 0)
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is in memory that no device can reach (a host array?)"));
  return absl::OkStatus();
}

}  // namespace

absl::Status check_pointers(const Library& library, Device device, const Launch& launch) {
  const ArgumentBlock& a = *launch.args;
  const Rows rows = launch.problem->rows;
  const bool argmax = has_row_lengths(launch.problem->op), indices = returns_indices(launch.problem->op);
  const struct {
    const char* name;
    const void* data;
  } operands[] = {{argmax ? "x" : "a", a.a},
                  {"b", a.b},
                  {is_grouped(rows) ? "router_weights" : "c", a.c},
                  {indices ? "indices" : "d", a.d},
                  {"bias", a.bias},
                  {"residual", a.residual},
                  {is_grouped(rows)         ? "routing"
                   : rows == Rows::kDeviceM ? "m_device"
                                            : "values",
                   a.values},
                  {"the workspace", launch.workspace}};
  for (const auto& operand : operands)
    LATHE_RETURN_IF_ERROR(check_pointer(library, device, operand.name, operand.data));
  return absl::OkStatus();
}

}  // namespace lathe::gpu
