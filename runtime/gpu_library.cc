#include "runtime/gpu_library.h"

#include <dlfcn.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"

namespace lathe {
namespace {

absl::Status unavailable(absl::string_view device, absl::string_view cause) {
  return absl::UnavailableError(absl::StrCat(device, ": not available, because ", cause));
}

absl::StatusOr<void*> open_library(const GpuApi& api) {
  std::string causes;
  for (const char* library : api.libraries) {
    if (library == nullptr) break;
    if (void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL)) return handle;
    absl::StrAppend(&causes, causes.empty() ? "" : "; ", dlerror());
  }
  return unavailable(api.prefix, causes);
}

absl::StatusOr<void*> find_function(const GpuApi& api, void* library, const char* name) {
  if (void* function = dlsym(library, name)) return function;
  return unavailable(api.prefix, absl::StrCat("the driver's library has no ", name));
}

absl::Status check_call(const GpuApi& api, const char* function, int result) {
  if (result == 0) return absl::OkStatus();
  constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE, hipErrorNoDevice
  return unavailable(api.prefix, absl::StrCat("the driver is installed but ", function, " answered ", result,
                                              result == kNoDevice ? " (no device)" : ""));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> probe_gpu(const GpuApi& api) {
  LATHE_ASSIGN_OR_RETURN(void* library, open_library(api));
  LATHE_ASSIGN_OR_RETURN(void* init, find_function(api, library, api.init));
  LATHE_ASSIGN_OR_RETURN(void* count, find_function(api, library, api.count));
  LATHE_ASSIGN_OR_RETURN(void* name, find_function(api, library, api.name));

  LATHE_RETURN_IF_ERROR(check_call(api, api.init, reinterpret_cast<int (*)(unsigned)>(init)(0)));
  int devices = 0;
  LATHE_RETURN_IF_ERROR(check_call(api, api.count, reinterpret_cast<int (*)(int*)>(count)(&devices)));
  if (devices <= 0) return unavailable(api.prefix, "the driver is installed but finds no device");

  std::vector<std::string> names;
  for (int device = 0; device < devices; ++device) {
    char text[256] = {};
    const int result = reinterpret_cast<int (*)(char*, int, int)>(name)(text, sizeof(text) - 1, device);
    names.push_back(result == 0 ? text : "unnamed device");
  }
  return names;
}

absl::StatusOr<std::vector<std::string>> enumerate_gpu(const GpuApi& api) {
  LATHE_ASSIGN_OR_RETURN(std::vector<std::string> found, probe_gpu(api));
  std::vector<std::string> names;
  for (size_t device = 0; device < found.size(); ++device)
    names.push_back(absl::StrCat(api.prefix, ":", device));
  return names;
}

absl::Status refuse_gpu(const GpuApi& api, absl::string_view name) {
  absl::string_view digits = name;
  int ordinal = -1;
  if (!absl::ConsumePrefix(&digits, api.prefix) || !absl::ConsumePrefix(&digits, ":") ||
      !absl::SimpleAtoi(digits, &ordinal) || ordinal < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("no device ", name, ": write ", api.prefix, ":<ordinal>, as in ", api.prefix, ":0"));
  }
  LATHE_ASSIGN_OR_RETURN(std::vector<std::string> found, probe_gpu(api));
  if (static_cast<size_t>(ordinal) >= found.size()) {
    return unavailable(name, absl::StrCat("the driver finds ", found.size(), " device(s)"));
  }
  return unavailable(name, absl::StrCat("this version launches kernels on the CPU alone (the driver finds ",
                                        found[static_cast<size_t>(ordinal)], ")"));
}

}  // namespace lathe
