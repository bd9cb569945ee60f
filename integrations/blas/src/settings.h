// What the user sets in the environment. docs/blas.md lists the variables.
#pragma once

#include <cstdint>

namespace lathe_blas {

// What a call does whose kernel is not loaded.
enum class OnMiss {
  kNext,  // a kernel from the cache serves its class; without one, the next BLAS does until the process ends
  kFallback,  // Lathe's generic kernel serves it until the background thread has compiled its own
  kBlock,     // it waits for the compiler
};

struct Settings {
  OnMiss on_miss = OnMiss::kNext;
  int32_t workers = 0;  // threads of one call; 0: Lathe decides
  bool verbose = false;
  int64_t small =
      0;  // the next BLAS serves products of at most as many multiply-adds; 0: Lathe serves every size
};

// The environment at the first call. Says on stderr which variable it could not read, and takes its default.
const Settings& settings();

}  // namespace lathe_blas
