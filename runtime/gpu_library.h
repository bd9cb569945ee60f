// CUDA's and HIP's drivers, opened at run time: no toolkit's headers or libraries at build time, and a
// machine without them runs the rest of Lathe. The two differ in the names of GpuApi; everything else is
// written once.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/driver.h"

namespace lathe {

// Where a driver is and what it calls its functions. The signatures are the same in both:
//   int init(unsigned flags);  int count(int* devices);  int name(char* text, int bytes, int device);
struct GpuApi {
  const char* prefix;                  // of device names: "cuda", "hip"
  std::array<const char*, 4> libraries;  // tried in order, ends at a null
  const char* init;
  const char* count;
  const char* name;
};

// What the driver calls each of its devices, by ordinal. kUnavailable ("cuda: not available, because ...")
// without the library, without one of its functions, or without a device. A library that was opened stays
// open, as the drivers' own threads require. The first call may take the driver's initialisation time (up to
// a second).
absl::StatusOr<std::vector<std::string>> probe_gpu(const GpuApi& api);

// Parts of a backend's row. This version launches on the CPU alone: query and open answer kUnavailable for
// every device, with the reason; kInvalidArgument for a name that is not "<prefix>:<ordinal>".
absl::StatusOr<std::vector<std::string>> enumerate_gpu(const GpuApi& api);
absl::Status refuse_gpu(const GpuApi& api, absl::string_view name);

}  // namespace lathe
