// What both examples print about the kernels they used.
#pragma once

#include <cstdio>
#include <cstring>
#include <lathe/lathe.hpp>

// Prints the context's statistics. With --expect-warm on the command line, false if anything was compiled or
// the compiler library loaded: the second process of the demo must do neither.
inline bool report_statistics(const lathe::Context& context, int argc, char** argv) {
  const lathe_statistics s = context.statistics();
  std::printf(
      "kernels: %llu compiled in %.1f ms, %llu from disk in %.2f ms; calls: %llu dispatched from the table\n",
      static_cast<unsigned long long>(s.compiles), s.compile_milliseconds,
      static_cast<unsigned long long>(s.disk_hits), s.disk_load_milliseconds + s.link_milliseconds,
      static_cast<unsigned long long>(s.dispatch_hits));
  if (s.compiler_loaded) {
    std::printf("compiler library: loaded in %.1f ms\n", s.compiler_load_milliseconds);
  } else {
    std::printf("compiler library: never loaded\n");
  }
  const bool expect_warm = argc > 1 && std::strcmp(argv[1], "--expect-warm") == 0;
  if (!expect_warm || (s.compiles == 0 && s.compiler_loaded == 0)) return true;
  std::fprintf(stderr, "expected a warm cache: no compile and no compiler library\n");
  return false;
}
