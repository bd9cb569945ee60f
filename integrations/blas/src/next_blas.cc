#include "next_blas.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

#include "no_fork.h"
#include "report.h"

// The slots of forward.S, in the order of forwarded.inc.
extern "C" __attribute__((visibility("hidden"))) std::atomic<void*> lathe_blas_slots[];

namespace lathe_blas {
namespace {

constexpr const char* kNames[] = {
#define FORWARD(name) #name,
#include "forwarded.inc"
#undef FORWARD
};

struct Library {
  void* handle;
  std::string name;
};

// This library may itself be installed as libblas.so.3, so it must not take itself for the next BLAS.
bool is_other_blas(void* handle) {
  void* const sgemm = dlsym(handle, "sgemm_");
  Dl_info of_sgemm, of_this;
  return sgemm != nullptr && dladdr(sgemm, &of_sgemm) != 0 && dladdr(kNames, &of_this) != 0 &&
         of_sgemm.dli_fbase != of_this.dli_fbase;
}

Library* open_library(const char* name, int flags) {
  void* const handle = dlopen(name, flags);
  if (handle == nullptr) return nullptr;
  if (is_other_blas(handle)) return new Library{handle, name};
  dlclose(handle);
  return nullptr;
}

// In this order: the library that the user names; one that the program is linked with or has opened already; one that
// is installed.
Library* open_next() {
  if (const char* const named = getenv("LATHE_BLAS_NEXT"); named != nullptr && *named != '\0') {
    if (strcmp(named, "none") == 0) return new Library{nullptr, named};
    if (Library* const library = open_library(named, RTLD_NOW | RTLD_LOCAL)) return library;
    const char* const cause = dlerror();
    report("LATHE_BLAS_NEXT: %s", cause != nullptr ? cause : "this library has no sgemm_ of its own");
  }
  if (is_other_blas(RTLD_NEXT)) return new Library{RTLD_NEXT, "the program's BLAS"};
  for (const char* loaded : {"libblas.so.3", "libopenblas.so.0"})
    if (Library* const library = open_library(loaded, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return library;
  for (const char* installed : {"libopenblas.so.0", "libblas.so.3", LATHE_BLAS_REFERENCE})
    if (Library* const library = open_library(installed, RTLD_NOW | RTLD_LOCAL)) return library;
  return new Library{nullptr, "none"};
}

const Library& next() {
  static std::atomic<Library*> opened{nullptr};
  Library* library = opened.load(std::memory_order_acquire);
  if (library != nullptr) return *library;
  const NoFork no_fork;
  // If two threads race to open it, the first wins. Both opened the same library.
  Library* const mine = open_next();
  if (opened.compare_exchange_strong(library, mine)) return *mine;
  delete mine;
  return *library;
}

}  // namespace

void* find_next(const char* name) {
  const Library& library = next();
  return library.handle == nullptr ? nullptr : dlsym(library.handle, name);
}

const char* name_of_next() { return next().name.c_str(); }

void exit_without(const char* name) {
  report("nothing provides %s: the next BLAS is %s. Install libopenblas0, or set LATHE_BLAS_NEXT to a BLAS",
         name, name_of_next());
  _exit(127);
}

}  // namespace lathe_blas

// Called by forward.S at the first call of a forwarded function.
extern "C" __attribute__((visibility("hidden"))) void* lathe_blas_resolve(uint32_t index) {
  using namespace lathe_blas;
  static_assert(std::atomic<void*>::is_always_lock_free && sizeof(std::atomic<void*>) == sizeof(void*));
  void* const function = index < std::size(kNames) ? find_next(kNames[index]) : nullptr;
  if (function == nullptr) exit_without(kNames[index]);
  lathe_blas_slots[index].store(function, std::memory_order_release);
  return function;
}
