// Computes products in the environment in which it was started. Prints the counts and contents of its cache
// to standard output; the library logs to standard error.
//   environment_child [N | clock=SECONDS | remove=FILE]...
// The arguments are executed in order: a product with N columns; move the clock by so many seconds from then
// on; remove a file.
#include <lathe/lathe.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "tests/checked_product.h"

static time_t seconds_off = 0;

// Replaces the clock for this program and its libraries.
extern "C" {
int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += seconds_off;
  return static_cast<int>(result);
}
time_t time(time_t* into) noexcept {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  if (into != nullptr) *into = now.tv_sec;
  return now.tv_sec;
}
int gettimeofday(timeval* into, void*) noexcept {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  *into = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}
}

namespace {

// Computes and checks one product. Returns false if a call failed or a sum is wrong.
bool multiply(lathe_device* device, int64_t n) {
  return lathe::checked_product(n, [&](const lathe_matmul_desc* desc) {
    const lathe_status status = lathe_matmul(device, nullptr, desc);
    if (status != LATHE_OK) std::printf("%s\n", lathe_last_error());
    return status;
  });
}

void report(lathe_context* context, int wrong) {
  lathe_statistics s = LATHE_STATISTICS_INIT;
  lathe_context_statistics(context, &s);
  std::string list;
  const lathe_status listed = lathe_cache_list(
      context,
      [](void* user, const char*, const char* text, size_t size) {
        static_cast<std::string*>(user)->append(text, size);
      },
      &list);
  if (listed != LATHE_OK) list = lathe_last_error();
  const auto print = [](const char* name, uint64_t value) {
    std::printf("%s=%llu ", name, static_cast<unsigned long long>(value));
  };
  print("secure", getauxval(AT_SECURE));
  print("now", static_cast<uint64_t>(time(nullptr)));
  print("wrong", static_cast<uint64_t>(wrong));
  print("compiles", s.compiles);
  print("disk_hits", s.disk_hits);
  print("rejects", s.disk_rejects);
  print("evictions", s.evictions);
  std::printf("%s\n", list.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.compiler_library = LATHE_COMPILER_FILE;
  lathe_context* context = nullptr;
  lathe_device* device = nullptr;
  if (lathe_context_create(&options, &context) != LATHE_OK ||
      lathe_device_open(context, "cpu", &device) != LATHE_OK) {
    std::printf("%s\n", lathe_last_error());
    return 1;
  }
  int wrong = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("clock=", 0) == 0)
      seconds_off = std::atoll(argument.c_str() + 6);
    else if (argument.rfind("remove=", 0) == 0)
      wrong += unlink(argument.c_str() + 7) != 0;
    else
      wrong += !multiply(device, std::atoll(argument.c_str()));
  }
  report(context, wrong);
  lathe_device_close(device);
  lathe_context_destroy(context);
  return wrong == 0 ? 0 : 1;
}
