#include "base/spinning_threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/small_file.h"
#include "base/standard_streams.h"

namespace lathe {
namespace {

// Whether any thread of this process except the caller runs or waits for a core. The process's CPU time would
// not do: for threads on other cores it is only updated at each tick.
bool others_run() {
  const int folder = beyond_standard_streams(open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* const tasks = folder < 0 ? nullptr : fdopendir(folder);
  if (tasks == nullptr) {
    if (folder >= 0) close(folder);
    return false;
  }
  bool running = false;
  while (const dirent* entry = readdir(tasks)) {
    if (entry->d_name[0] == '.' || std::atoi(entry->d_name) == gettid()) continue;
    constexpr size_t kMostStat = 4096;
    const auto stat = read_small_file(absl::StrCat("/proc/self/task/", entry->d_name, "/stat"), kMostStat);
    const size_t name_ends = stat ? stat->rfind(')') : std::string::npos;  // "id (name) state ..."
    running |= name_ends != std::string::npos && stat->compare(name_ends, 3, ") R") == 0;
  }
  closedir(tasks);
  return running;
}

}  // namespace

double SpinningThreads::wait() {
  constexpr double kMostSeconds = 0.2;
  const auto begin = std::chrono::steady_clock::now();
  double waited = 0;
  while (!work_on_ && others_run()) {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    work_on_ = waited > kMostSeconds;
  }
  return waited;
}

}  // namespace lathe
