#include "engine.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdlib>
#include <string>

#include "class_table.h"
#include "exception_flags.h"
#include "next_blas.h"
#include "no_fork.h"
#include "prepare.h"
#include "report.h"

#define LATHE_BLAS_TEXT_OF(x) #x
#define LATHE_BLAS_TEXT(x) LATHE_BLAS_TEXT_OF(x)

namespace lathe_blas {
namespace {

constexpr char kLibrary[] =
    "liblathe.so." LATHE_BLAS_TEXT(LATHE_VERSION_MAJOR) "." LATHE_BLAS_TEXT(LATHE_VERSION_MINOR);

enum class State : int { kClosed, kOpening, kOpen, kAbsent };
std::atomic<State> state{State::kClosed};
Engine current;          // written while the state is kOpening
bool is_forked = false;  // written in the child of a fork, before it has a second thread

void forget_parent() {
  const State before = state.load();
  if (before == State::kClosed || before == State::kAbsent) return;
  is_forked = true;
  forget_background_thread();
  clear_servers();
  state.store(State::kClosed);
}
__attribute__((constructor)) void watch_forks() { pthread_atfork(nullptr, nullptr, forget_parent); }

// Beside this library (the file itself, if it was loaded through a link such as libblas.so.3), else where the loader
// looks.
void* open_liblathe() {
  Dl_info info;
  char path[PATH_MAX];
  if (dladdr(kLibrary, &info) != 0 && realpath(info.dli_fname, path) != nullptr) {
    std::string beside = path;
    beside.replace(beside.rfind('/') + 1, std::string::npos, kLibrary);
    if (void* const handle = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  return dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
}

template <typename Function>
bool find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

// A child of a fork takes the functions that its parent found: it must not call the loader, which another thread of the
// parent may have been in.
const Api* open_api() {
  static Api api;
  static bool is_open = false;
  if (is_open) return &api;
  const NoFork no_fork;
  void* const library = open_liblathe();
  if (library != nullptr && find(library, "lathe_context_create", &api.context_create) &&
      find(library, "lathe_context_set_miss", &api.context_set_miss) &&
      find(library, "lathe_device_open", &api.device_open) && find(library, "lathe_matmul", &api.matmul) &&
      find(library, "lathe_manifest_create", &api.manifest_create) &&
      find(library, "lathe_manifest_parse", &api.manifest_parse) &&
      find(library, "lathe_manifest_destroy", &api.manifest_destroy) &&
      find(library, "lathe_warmup", &api.warmup) && find(library, "lathe_last_error", &api.last_error)) {
    is_open = true;
    return &api;
  }
  const char* const cause = dlerror();
  report("%s; every call goes to the next BLAS (%s)", cause != nullptr ? cause : kLibrary, name_of_next());
  return nullptr;
}

// Lathe has code for every x86-64 processor, but without AVX2 the next BLAS is the better choice.
bool processor_is_served() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return true;
  report("this processor has no AVX2 and FMA; every call goes to the next BLAS (%s)", name_of_next());
  return false;
#else
  return true;
#endif
}

bool open_engine(Engine* engine) {
  if (!processor_is_served()) return false;
  const Api* const api = open_api();
  if (api == nullptr) return false;
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.workers = settings().workers;
  // The parent may have been inside LLVM when it forked, and LLVM's locks stay locked in the child.
  if (is_forked) options.compiler = LATHE_COMPILER_PROCESS;
  lathe_context* context = nullptr;
  lathe_device* device = nullptr;
  if (api->context_create(&options, &context) != LATHE_OK ||
      api->context_set_miss(context, LATHE_MISS_DEFAULT, note_miss, nullptr) != LATHE_OK ||
      api->device_open(context, "cpu", &device) != LATHE_OK) {
    report("%s; every call goes to the next BLAS (%s)", api->last_error(), name_of_next());
    return false;
  }
  *engine = {api, device, settings().on_miss};
  return true;
}

}  // namespace

const Engine* engine(IfOpening if_opening) {
  for (;;) {
    State seen = state.load(std::memory_order_acquire);
    if (__builtin_expect(seen == State::kOpen, 1)) return &current;
    if (seen == State::kAbsent || (seen == State::kOpening && if_opening == IfOpening::kReturn))
      return nullptr;
    if (seen == State::kOpening) {
      usleep(1000);
      continue;
    }
    const KeepExceptionFlags keep_flags;
    if (!state.compare_exchange_strong(seen, State::kOpening)) continue;
    state.store(open_engine(&current) ? State::kOpen : State::kAbsent, std::memory_order_release);
  }
}

}  // namespace lathe_blas
