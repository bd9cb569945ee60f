// The CUDA and HIP drivers, opened at run time. No toolkit is needed to build Lathe, and a machine without
// them can use the rest.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/facts.h"
#include "runtime/gpu/functions.h"

namespace lathe::gpu {

// What a result code of a driver means.
struct ResultRow {
  int result;
  absl::StatusCode code;
  bool loses_context = false;  // every later call in the context fails the same way
  bool refuses_code = false;   // the driver rejects this form of the code; another may work
};

struct Calls {
#define LATHE_GPU_MEMBER(name, parameters, cuda, hip, need) int(*name) parameters = nullptr;
  LATHE_GPU_FUNCTIONS(LATHE_GPU_MEMBER)
#undef LATHE_GPU_MEMBER
#define LATHE_HIP_MEMBER(result, name, parameters, hip, need) result(*name) parameters = nullptr;
  LATHE_HIP_FUNCTIONS(LATHE_HIP_MEMBER)
#undef LATHE_HIP_MEMBER
};

class Library;

// One GPU backend: everything in which CUDA and HIP differ.
struct Platform {
  const char* prefix;                    // of device names: "cuda", "hip"
  std::array<const char*, 4> libraries;  // tried in order; null ends the list
  bool is_cuda;                          // which column of functions.h
  std::vector<ResultRow> results;        // a result without a row is kInternal
  absl::StatusOr<DeviceFacts> (*query)(const Library& library, Device device);
};

// An opened driver library. It is never closed, because the driver's own threads use it.
class Library {
 public:
  // kUnavailable ("cuda: not available, because ..."): there is no library, a needed function is missing, or
  // the initialisation fails. `to_list`: only the functions that list devices are needed. The first call may
  // take up to a second. A library that the process has already loaded is preferred, because the caller's
  // streams belong to it.
  static absl::StatusOr<Library> open(const Platform& platform, bool to_list);

  const Calls& call() const { return calls_; }
  // Finds a symbol in the driver's library or one that it depends on; null if there is none.
  void* symbol(const char* name) const;

  // Context and launch functions, which CUDA and HIP call differently. HIP has no contexts; there a Context
  // stands for a device.
  int retain_primary(Context* context, Device device) const;
  void release_primary(Device device) const;
  int current_context(Context* context) const;  // of this thread; may be null
  int enter_context(Context context) const;
  void leave_context(Context before) const;  // `before`: the context before enter_context
  // kNotSupported: the driver has no function for this.
  int stream_context(Stream stream, Context* context) const;
  int context_device(Context context, Device* device) const;
  // The driver's handle for a caller's stream. HIP before 6.4 accepts only null for the legacy stream.
  Stream stream(void* handle) const {
    const bool legacy = reinterpret_cast<uintptr_t>(handle) == kLegacyStream;
    return legacy && !platform_->is_cuda ? nullptr : static_cast<Stream>(handle);
  }
  // Exactly one of these is not null: `parameters` has a pointer to each parameter, `extra` describes one
  // buffer with all of them. Launch attributes are used by CUDA only.
  int launch(const LaunchConfiguration& config, Function function, void** parameters, void** extra) const;

  const Platform& platform() const { return *platform_; }

  // Ok for 0; otherwise error(result, action).
  absl::Status check(int result, const char* action) const {
    return __builtin_expect(result == kSuccess, 1) ? absl::OkStatus() : error(result, action);
  }
  // Returns "<action>: CUDA_ERROR_OUT_OF_MEMORY (out of memory)" with the code that the platform's table has
  // for `result`. If the context is lost, the message says so.
  [[gnu::cold]] absl::Status error(int result, absl::string_view action) const;
  const ResultRow& row(int result) const;
  // "CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)"
  std::string describe(int result) const;

  // The driver's names of its devices, by ordinal. kUnavailable: there are none.
  absl::StatusOr<std::vector<std::string>> devices() const;

 private:
  explicit Library(const Platform& platform) : platform_(&platform) {}
  const Platform* platform_;
  void* handle_ = nullptr;
  Calls calls_;
};

// Parses "cuda:3" to 3. kInvalidArgument: the name is not "<prefix>:<ordinal>".
absl::StatusOr<int> ordinal_of(const Platform& platform, absl::string_view name);

// "cuda: not available, because <cause>"
absl::Status unavailable(absl::string_view device, absl::string_view cause);

}  // namespace lathe::gpu
