#include "compile_client/compiler_library.h"

#include <dlfcn.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/load_library.h"
#include "base/own_stack.h"
#include "base/status.h"
#include "compile_client/beside_library.h"
#include "core/key.h"

namespace lathe {
namespace {

absl::Status unavailable(const std::string& path, absl::string_view cause) {
  return absl::UnavailableError(absl::StrCat("compiler library ", path, ": ", cause));
}

}  // namespace

CompilerLibrary::CompilerLibrary(std::string path)
    : path_(path.empty() ? beside_library("liblathe-compiler.so") : std::move(path)) {}

absl::Status CompilerLibrary::load() {
  if (compile_.load(std::memory_order_acquire) != nullptr) return absl::OkStatus();
  absl::Status status;
  LATHE_RETURN_IF_ERROR(run_on_own_stack([&] { status = map(); }));
  return status;
}

absl::Status CompilerLibrary::map() {
  // Two threads may do this at the same time: the dynamic linker loads the library once.
  const auto start = std::chrono::steady_clock::now();
  // The handle is never closed, not even if the library is refused: LLVM's static and thread-local data may not
  // survive that.
  std::string cause;
  void* library = load_library(path_.c_str(), RTLD_NOW | RTLD_LOCAL, &cause);
  if (library == nullptr) {
    absl::string_view text = cause;
    absl::ConsumePrefix(&text, absl::StrCat(path_, ": "));
    return unavailable(path_, text);
  }
  const auto abi =
      reinterpret_cast<lathe_compiler_abi_version_fn>(dlsym(library, "lathe_compiler_abi_version"));
  const auto id = reinterpret_cast<lathe_compiler_codegen_id_fn>(dlsym(library, "lathe_compiler_codegen_id"));
  const auto compile = reinterpret_cast<lathe_compiler_compile_fn>(dlsym(library, "lathe_compiler_compile"));
  if (abi == nullptr || id == nullptr || compile == nullptr) {
    return unavailable(path_,
                       "not a Lathe compiler: it lacks lathe_compiler_abi_version, _codegen_id or _compile");
  }
  if (abi() != LATHE_COMPILER_ABI_VERSION) {
    return unavailable(path_,
                       absl::StrCat("its ABI version ", abi(), " is not ", LATHE_COMPILER_ABI_VERSION));
  }
  if (codegen_id() != id()) {
    return unavailable(path_, absl::StrCat("its codegen id ", id(), " is not this library's ", codegen_id()));
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  load_milliseconds_.store(took.count(), std::memory_order_relaxed);
  compile_.store(compile, std::memory_order_release);
  return absl::OkStatus();
}

bool CompilerLibrary::mapped() const {
  void* library = dlopen(path_.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library != nullptr) dlclose(library);
  return library != nullptr;
}

absl::StatusOr<int> CompilerLibrary::ask(absl::string_view request, lathe_compiler_sink sink, void* user) {
  LATHE_RETURN_IF_ERROR(load());
  const lathe_compiler_compile_fn compile = compile_.load(std::memory_order_acquire);
  int answer = 0;
  LATHE_RETURN_IF_ERROR(run_on_own_stack([&] {
    answer = compile(reinterpret_cast<const uint8_t*>(request.data()), request.size(), sink, user);
  }));
  return answer;
}

}  // namespace lathe
