// The statistics that both examples print at the end.
#pragma once

#include <cstdio>
#include <cstring>
#include <lathe/lathe.hpp>

// Prints the context's statistics. Returns false if --expect-warm is on the command line and this process
// compiled a kernel or loaded the compiler library: with a warm cache it must do neither.
inline bool report_statistics(const lathe::Context& context, int argc, char** argv) {
  const lathe_statistics s = context.statistics();
  std::printf(
      "kernels: %llu compiled in %.1f ms, %llu loaded from disk in %.2f ms; calls served by a loaded kernel: "
      "%llu\n",
      static_cast<unsigned long long>(s.compiles), s.compile_milliseconds,
      static_cast<unsigned long long>(s.disk_hits), s.disk_load_milliseconds + s.link_milliseconds,
      static_cast<unsigned long long>(s.dispatch_hits));
  if (s.compiler_loaded) {
    std::printf("compiler library: loaded in %.1f ms\n", s.compiler_load_milliseconds);
  } else {
    std::printf("compiler library: not loaded\n");
  }
  const bool expect_warm = argc > 1 && std::strcmp(argv[1], "--expect-warm") == 0;
  if (!expect_warm || (s.compiles == 0 && s.compiler_loaded == 0)) return true;
  std::fprintf(
      stderr,
      "--expect-warm: the cache was not warm, because a kernel was compiled or the compiler library was "
      "loaded. Run once without --expect-warm, with the same LATHE_CACHE_DIR\n");
  return false;
}
