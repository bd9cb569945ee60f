#include "settings.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "report.h"

namespace lathe_blas {
namespace {

const char* variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

OnMiss read_on_miss() {
  const char* const value = variable("LATHE_BLAS_MISS");
  if (value == nullptr || strcmp(value, "next") == 0) return OnMiss::kNext;
  if (strcmp(value, "fallback") == 0) return OnMiss::kFallback;
  if (strcmp(value, "block") == 0) return OnMiss::kBlock;
  report("LATHE_BLAS_MISS is \"%s\", not next, fallback or block; next is taken", value);
  return OnMiss::kNext;
}

int32_t processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1024;
}

// OpenBLAS' variables, for programs that set them. Like OpenBLAS, never more threads than processors. "4,2" is a legal
// OMP_NUM_THREADS: its first number is for the outermost level.
int32_t read_workers() {
  if (variable("LATHE_WORKERS") != nullptr) return 0;  // Lathe reads it
  for (const char* name : {"OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"}) {
    const char* const value = variable(name);
    const long number = value == nullptr ? 0 : strtol(value, nullptr, 10);
    if (number > 0) return static_cast<int32_t>(std::min<long>(number, processors()));
  }
  return 0;
}

bool read_verbose() {
  const char* const value = variable("LATHE_BLAS_VERBOSE");
  return value != nullptr && strcmp(value, "0") != 0;
}

// Up to this many multiply-adds, the next BLAS is done sooner (docs/blas.md).
constexpr int64_t kSmall = 65536;

int64_t read_small() {
  const char* const value = variable("LATHE_BLAS_SMALL");
  if (value == nullptr) return kSmall;
  char* end;
  const int64_t number = strtoll(value, &end, 10);
  if (*end == '\0' && number >= 0) return number;
  report("LATHE_BLAS_SMALL is \"%s\", not a number of multiply-adds; %lld is taken", value,
         (long long)kSmall);
  return kSmall;
}

}  // namespace

const Settings& settings() {
  static const Settings read = {read_on_miss(), read_workers(), read_verbose(), read_small()};
  return read;
}

}  // namespace lathe_blas
