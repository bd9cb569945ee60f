// CUDA's and HIP's drivers, opened at run time: no toolkit's headers or libraries at build time, and a
// machine without them runs the rest of Lathe.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/facts.h"
#include "runtime/gpu/functions.h"

namespace lathe::gpu {

// What each result of a driver means to a caller.
struct ResultRow {
  int result;
  absl::StatusCode code;
  bool loses_context = false;  // every later call of the context fails likewise
  bool refuses_code = false;   // the driver cannot take this form of the code; another may do
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

// A backend: all in which one vendor's differs from another's.
struct Platform {
  const char* prefix;                    // of device names: "cuda", "hip"
  std::array<const char*, 4> libraries;  // tried in order, ends at a null
  bool is_cuda;                          // which column of functions.h
  std::vector<ResultRow> results;        // what is in no row is kInternal
  absl::StatusOr<DeviceFacts> (*query)(const Library& library, Device device);
};

// An opened driver library. It stays open for ever, as the drivers' own threads require.
class Library {
 public:
  // kUnavailable ("cuda: not available, because ...") without the library, without one of the functions that
  // are needed
  // (`to_list`: to list devices alone), or when its initialisation fails, which may take up to a second at
  // the first call.
  // A library that the process has loaded already is taken before all others: its streams are the caller's.
  static absl::StatusOr<Library> open(const Platform& platform, bool to_list);

  const Calls& call() const { return calls_; }
  // In the driver's library or one that it depends on; null if there is none.
  void* symbol(const char* name) const;

  // Contexts and launches, which the two vendors call differently. HIP has one context a device, which stands
  // for it.
  int retain_primary(Context* context, Device device) const;
  void release_primary(Device device) const;
  int current_context(Context* context) const;  // the thread's, or null
  int enter_context(Context context) const;
  void leave_context(Context before) const;  // `before`: what was current when it was entered
  // kNotSupported where the driver cannot tell.
  int stream_context(Stream stream, Context* context) const;
  int context_device(Context context, Device* device) const;
  // A caller's handle as the driver knows it. HIP before 6.4 has no name for the legacy stream but null.
  Stream stream(void* handle) const {
    const bool legacy = reinterpret_cast<uintptr_t>(handle) == kLegacyStream;
    return legacy && !platform_->is_cuda ? nullptr : static_cast<Stream>(handle);
  }
  // Either a pointer to each parameter or `extra`, which holds all of them in one buffer; the other is null.
  // Launch attributes are CUDA's.
  int launch(const LaunchConfiguration& config, Function function, void** parameters, void** extra) const;

  const Platform& platform() const { return *platform_; }

  // Ok for 0; otherwise error(result, action).
  absl::Status check(int result, const char* action) const {
    return __builtin_expect(result == kSuccess, 1) ? absl::OkStatus() : error(result, action);
  }
  // "<action>: CUDA_ERROR_OUT_OF_MEMORY (out of memory)" under the code that the platform's table has for
  // `result`. One that loses the context says so.
  [[gnu::cold]] absl::Status error(int result, absl::string_view action) const;
  const ResultRow& row(int result) const;
  // "CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)"
  std::string describe(int result) const;

  // Names the driver gives its devices, by ordinal; kUnavailable when there is none.
  absl::StatusOr<std::vector<std::string>> devices() const;

 private:
  explicit Library(const Platform& platform) : platform_(&platform) {}
  const Platform* platform_;
  void* handle_ = nullptr;
  Calls calls_;
};

// "cuda:3" to 3; kInvalidArgument for what is not "<prefix>:<ordinal>".
absl::StatusOr<int> ordinal_of(const Platform& platform, absl::string_view name);

// "cuda: not available, because <cause>"
absl::Status unavailable(absl::string_view device, absl::string_view cause);

}  // namespace lathe::gpu
