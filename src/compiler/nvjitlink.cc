#include "compiler/nvjitlink.h"

#include <dlfcn.h>

#include <cstdint>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lathe {
namespace {

// The functions of the library, as declared in NVIDIA's nvJitLink manual. They return 0 on success.
using Handle = void*;
constexpr int kInputPtx = 2;
struct Functions {
  int (*create)(Handle*, uint32_t options, const char* const* values);
  int (*destroy)(Handle*);
  int (*add_data)(Handle, int type, const void* data, size_t size, const char* name);
  int (*complete)(Handle);
  int (*cubin_size)(Handle, size_t*);
  int (*cubin)(Handle, void*);
  int (*error_size)(Handle, size_t*);
  int (*error)(Handle, char*);
  int (*info_size)(Handle, size_t*);
  int (*info)(Handle, char*);
  std::string version;
};

// The major versions whose functions have these signatures, the newest first.
constexpr int kMajors[] = {13, 12};

void* open_library(int major, const std::vector<std::string>& directories) {
  const std::string name = absl::StrCat("libnvJitLink.so.", major);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  for (const std::string& directory : directories) {
    if (library != nullptr) break;
    library = dlopen(absl::StrCat(directory, "/", name).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  return library;
}

// The library exports each function under a plain name ("nvJitLinkCreate") and under a versioned one, which its
// header uses ("__nvJitLinkCreate_12_4"). A release keeps the versioned names of older minor versions. Try both.
template <typename Function>
bool find_function(void* library, int major, const char* name, Function* out) {
  void* found = dlsym(library, absl::StrCat("nvJitLink", name).c_str());
  for (int minor = 9; found == nullptr && minor >= 0; --minor)
    found = dlsym(library, absl::StrCat("__nvJitLink", name, "_", major, "_", minor).c_str());
  *out = reinterpret_cast<Function>(found);
  return found != nullptr;
}

absl::StatusOr<Functions> find_functions(const std::vector<std::string>& directories) {
  for (int major : kMajors) {
    void* library = open_library(major, directories);
    if (library == nullptr) continue;
    Functions f;
    const auto find = [&](const char* name, auto* out) { return find_function(library, major, name, out); };
    if (!find("Create", &f.create) || !find("Destroy", &f.destroy) || !find("AddData", &f.add_data) ||
        !find("Complete", &f.complete) || !find("GetLinkedCubinSize", &f.cubin_size) ||
        !find("GetLinkedCubin", &f.cubin) || !find("GetErrorLogSize", &f.error_size) ||
        !find("GetErrorLog", &f.error) || !find("GetInfoLogSize", &f.info_size) ||
        !find("GetInfoLog", &f.info))
      continue;
    // nvJitLinkVersion exists since 12.3.
    int (*version)(unsigned*, unsigned*) = nullptr;
    unsigned numbers[2] = {static_cast<unsigned>(major), 0};
    const bool known = find("Version", &version) && version(&numbers[0], &numbers[1]) == 0;
    f.version = known ? absl::StrCat(numbers[0], ".", numbers[1]) : absl::StrCat(major, ".x");
    return f;
  }
  return absl::NotFoundError("libnvJitLink.so.13 or libnvJitLink.so.12 was not found");
}

std::string text_of(Handle handle, int (*size_of)(Handle, size_t*), int (*get)(Handle, char*)) {
  size_t size = 0;
  if (size_of(handle, &size) != 0 || size == 0) return "";
  std::string text(size, '\0');
  if (get(handle, text.data()) != 0) return "";
  return text.substr(0, text.find('\0'));
}

absl::StatusOr<std::string> take_cubin(const Functions& f, Handle handle) {
  size_t size = 0;
  if (f.cubin_size(handle, &size) != 0 || size == 0) return absl::AbortedError("it returned no cubin");
  std::string cubin(size, '\0');
  if (f.cubin(handle, cubin.data()) != 0) return absl::AbortedError("it returned no cubin");
  return cubin;
}

}  // namespace

absl::StatusOr<JitLinked> nvjitlink_ptx(const std::string& ptx, absl::string_view arch,
                                        const std::vector<std::string>& nvjitlink_directories) {
  // The manual does not say that the library is thread-safe.
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  LATHE_ASSIGN_OR_RETURN(const Functions f, find_functions(nvjitlink_directories));
  const std::string arch_option = absl::StrCat("-arch=", arch);
  const char* options[] = {arch_option.c_str(), "-O3", "-verbose"};
  Handle handle = nullptr;
  if (const int result = f.create(&handle, std::size(options), options); result != 0)
    return absl::UnimplementedError(absl::StrCat("nvJitLink ", f.version, " does not support ", arch_option,
                                                 " (nvJitLinkCreate returned ", result, ")"));
  // The library requires the terminating null character.
  int result = f.add_data(handle, kInputPtx, ptx.c_str(), ptx.size() + 1, "kernel.ptx");
  if (result == 0) result = f.complete(handle);
  absl::StatusOr<std::string> cubin = absl::AbortedError(text_of(handle, f.error_size, f.error));
  if (result == 0) cubin = take_cubin(f, handle);
  const std::string log = text_of(handle, f.info_size, f.info);
  f.destroy(&handle);
  if (!cubin.ok())
    return absl::AbortedError(absl::StrCat("nvJitLink ", f.version, ": ", cubin.status().message()));
  return JitLinked{f.version, *std::move(cubin), log};
}

}  // namespace lathe
