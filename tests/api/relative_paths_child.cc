// Loads the library by a given name, passes it paths, and changes the current directory in between:
//   relative_paths_child LIBRARY COMMAND...
// The commands run in order:
//   chdir=DIR
//   bundle=FILE or NAME=PATH: an option of the context (options/path_options.h)
//   process: compile in processes
//   open: make the context and open the CPU
//   product=N: multiply, and check the result
//   fallback: use generic kernels from now on, and compile in the background
//   tune=FILE,DIR: tune into FILE, and change to DIR in the middle of it
//   pack=FILE: write the cache directory as a bundle
// Standard output gets failures and counts of the work done. Standard error gets the library's log.
#include <dlfcn.h>
#include <lathe/lathe.h>
#include <lathe/tune.h>
#include <lathe/ukernel.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <thread>

#include "options/path_options.h"
#include "tests/checked_product.h"

namespace {

using Text = std::string;

void* library = nullptr;
#define OF_LIBRARY(function) reinterpret_cast<decltype(&function)>(dlsym(library, #function))

struct Child {
  std::deque<Text> paths;  // `options` points into these
  const char* bundle = nullptr;
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  lathe_context* context = nullptr;
  lathe_device* device = nullptr;

  bool set(const Text& name, const Text& path) {
    paths.push_back(path);
    if (name == "bundle") {
      bundle = paths.back().c_str();
      options.bundles = &bundle;
      options.bundle_count = 1;
      return true;
    }
    for (const lathe::PathOption& row : lathe::kPathOptions) {
      if (name != row.name || row.given == nullptr) continue;
      options.*row.given = paths.back().c_str();
      return true;
    }
    return false;
  }
  bool open() {
    return OF_LIBRARY(lathe_context_create)(&options, &context) == LATHE_OK &&
           OF_LIBRARY(lathe_device_open)(context, "cpu", &device) == LATHE_OK;
  }
  bool product(int64_t n) {
    return lathe::checked_product(
        n, [&](const lathe_matmul_desc* desc) { return OF_LIBRARY(lathe_matmul)(device, nullptr, desc); });
  }
  bool tune(const Text& file, const Text& directory) {
    lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
    desc.m = 3, desc.n = 64, desc.k = 33;
    desc.a.dtype = desc.b.dtype = desc.d.dtype = LATHE_F32;
    lathe_tune_options tuning = LATHE_TUNE_OPTIONS_INIT;
    tuning.output = file.c_str();
    tuning.candidates = 1;
    tuning.candidate_nanoseconds = 1000000;
    tuning.pool_bytes = 1 << 20;
    // Called before the file is written.
    tuning.text = [](void* user, const char*, const char*, size_t) {
      if (chdir(static_cast<const Text*>(user)->c_str()) != 0) std::abort();
    };
    tuning.text_user = const_cast<Text*>(&directory);
    return OF_LIBRARY(lathe_tune_matmul)(device, &desc, &tuning, nullptr) == LATHE_OK;
  }
  bool perform(const Text& command) {
    const size_t equals = std::min(command.find('='), command.size()), comma = command.find(',');
    const Text verb = command.substr(0, equals), value = command.substr(std::min(equals + 1, command.size()));
    if (verb == "chdir") return chdir(value.c_str()) == 0;
    if (verb == "process") return options.compiler = LATHE_COMPILER_PROCESS, true;
    if (verb == "open") return open();
    if (verb == "product") return product(std::atoll(value.c_str()));
    if (verb == "fallback")
      return OF_LIBRARY(lathe_context_set_miss)(context, LATHE_MISS_FALLBACK, nullptr, nullptr) == LATHE_OK;
    if (verb == "tune" && comma < command.size())
      return tune(command.substr(equals + 1, comma - equals - 1), command.substr(comma + 1));
    const char* source = options.cache_dir;
    if (verb == "pack")
      return OF_LIBRARY(lathe_bundle_write)(value.c_str(), &source, 1, nullptr, nullptr) == LATHE_OK;
    return set(verb, value);
  }
  lathe_statistics statistics() const {
    lathe_statistics s = LATHE_STATISTICS_INIT;
    OF_LIBRARY(lathe_context_statistics)(context, &s);
    return s;
  }
  // Each product that ran on a generic kernel is compiled once, at some later time.
  void wait_for_background() const {
    for (int i = 0; i < 6000 && statistics().background_compiles < statistics().fallback_runs; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  void report() const {
    const auto print = [](void*, const char* name, const char* text, size_t size) {
      std::printf("%s: %.*s\n", name, static_cast<int>(size), text);
    };
    const lathe_statistics s = statistics();
    std::printf("compiles=%d background_compiles=%d bundle_hits=%d fallback_runs=%d\n",
                static_cast<int>(s.compiles), static_cast<int>(s.background_compiles),
                static_cast<int>(s.bundle_hits), static_cast<int>(s.fallback_runs));
    OF_LIBRARY(lathe_cache_list)(context, print, nullptr);
    OF_LIBRARY(lathe_ukernel_list)(context, print, nullptr);
  }
};

}  // namespace

int main(int count, char** arguments) {
  library = count > 1 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (library == nullptr) {
    std::printf("%s\n", count > 1 ? dlerror() : "no library is named");
    return 2;
  }
  Child child;
  bool good = true;
  for (int i = 2; i < count && good; ++i) {
    good = child.perform(arguments[i]);
    if (!good) std::printf("%s failed: %s\n", arguments[i], OF_LIBRARY(lathe_last_error)());
  }
  if (child.device != nullptr) {
    child.wait_for_background();
    child.report();
    OF_LIBRARY(lathe_device_close)(child.device);
  }
  OF_LIBRARY(lathe_context_destroy)(child.context);
  return good ? 0 : 1;
}
