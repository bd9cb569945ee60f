#include "runtime/gpu/library.h"

#include <dlfcn.h>

#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/load_library.h"
#include "base/status.h"

namespace lathe::gpu {
namespace {

enum Need { kProbe, kRequired, kOptional };

struct Symbol {
  const char* cuda;
  const char* hip;
  Need need;
  size_t offset;  // in Calls
};
constexpr Symbol kSymbols[] = {
#define LATHE_GPU_SYMBOL(name, parameters, cuda, hip, need) {cuda, hip, need, offsetof(Calls, name)},
    LATHE_GPU_FUNCTIONS(LATHE_GPU_SYMBOL)
#undef LATHE_GPU_SYMBOL
#define LATHE_HIP_SYMBOL(result, name, parameters, hip, need) {nullptr, hip, need, offsetof(Calls, name)},
        LATHE_HIP_FUNCTIONS(LATHE_HIP_SYMBOL)
#undef LATHE_HIP_SYMBOL
};

absl::StatusOr<void*> open_library(const Platform& platform) {
  for (const char* library : platform.libraries) {
    if (library == nullptr) break;
    if (void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return handle;
  }
  std::string causes;
  for (const char* library : platform.libraries) {
    if (library == nullptr) break;
    std::string cause;
    if (void* handle = load_library(library, RTLD_NOW | RTLD_LOCAL, &cause)) return handle;
    absl::StrAppend(&causes, causes.empty() ? "" : "; ", cause);
  }
  return unavailable(platform.prefix, causes);
}

absl::Status find_functions(const Platform& platform, void* handle, bool to_list, Calls* calls) {
  for (const Symbol& symbol : kSymbols) {
    if (to_list && symbol.need != kProbe) continue;
    const char* name = platform.is_cuda ? symbol.cuda : symbol.hip;
    if (name == nullptr) continue;
    void* function = dlsym(handle, name);
    if (function == nullptr && symbol.need != kOptional) {
      return unavailable(platform.prefix, absl::StrCat("the driver's library has no ", name,
                                                       ": it is older than this library needs"));
    }
    std::memcpy(reinterpret_cast<char*>(calls) + symbol.offset, &function, sizeof function);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status unavailable(absl::string_view device, absl::string_view cause) {
  return absl::UnavailableError(absl::StrCat(device, ": not available, because ", cause));
}

absl::StatusOr<Library> Library::open(const Platform& platform, bool to_list) {
  Library library(platform);
  LATHE_ASSIGN_OR_RETURN(library.handle_, open_library(platform));
  LATHE_RETURN_IF_ERROR(find_functions(platform, library.handle_, to_list, &library.calls_));
  if (const int result = library.calls_.init(0); result != kSuccess) {
    return unavailable(
        platform.prefix,
        absl::StrCat("the driver is installed but its initialisation failed: ", library.describe(result)));
  }
  return library;
}

void* Library::symbol(const char* name) const { return dlsym(handle_, name); }

std::string Library::describe(int result) const {
  const char *name = nullptr, *text = nullptr;
  if (calls_.error_name != nullptr) calls_.error_name(result, &name);
  if (calls_.error_text != nullptr) calls_.error_text(result, &text);
  if (calls_.result_name != nullptr) name = calls_.result_name(result);
  if (calls_.result_text != nullptr) text = calls_.result_text(result);
  if (name == nullptr) return absl::StrCat("error ", result, result == kNoDevice ? " (no device)" : "");
  return absl::StrCat(name, " (", text == nullptr ? absl::StrCat(result) : text, ")");
}

const ResultRow& Library::row(int result) const {
  static const ResultRow unknown = {-1, absl::StatusCode::kInternal};
  for (const ResultRow& row : platform_->results)
    if (row.result == result) return row;
  return unknown;
}

absl::Status Library::error(int result, absl::string_view action) const {
  const ResultRow& found = row(result);
  const char* lost = !found.loses_context ? ""
                     : platform_->is_cuda ? "the CUDA context is lost: "
                                          : "the HIP context is lost: ";
  return absl::Status(found.code, absl::StrCat(lost, action, ": ", describe(result)));
}

absl::StatusOr<std::vector<std::string>> Library::devices() const {
  int count = 0;
  if (const int result = calls_.device_count(&count); result != kSuccess) {
    return unavailable(
        platform_->prefix,
        absl::StrCat("the driver is installed but counting its devices failed: ", describe(result)));
  }
  if (count <= 0) return unavailable(platform_->prefix, "the driver is installed but finds no device");
  std::vector<std::string> names;
  for (Device device = 0; device < count; ++device) {
    char text[256] = {};
    const int result = calls_.device_name(text, sizeof(text) - 1, device);
    names.push_back(result == kSuccess && text[0] != 0 ? text : "unnamed device");
  }
  return names;
}

absl::StatusOr<int> ordinal_of(const Platform& platform, absl::string_view name) {
  absl::string_view digits = name;
  int ordinal = -1;
  if (!absl::ConsumePrefix(&digits, platform.prefix) || !absl::ConsumePrefix(&digits, ":") ||
      !absl::SimpleAtoi(digits, &ordinal) || ordinal < 0) {
    return absl::InvalidArgumentError(absl::StrCat("no device ", name, ": write ", platform.prefix,
                                                   ":<ordinal>, as in ", platform.prefix, ":0"));
  }
  return ordinal;
}

}  // namespace lathe::gpu
