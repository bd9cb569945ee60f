// Finds the compiler processes of a process in /proc.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace lathe {

struct ProcessStat {
  std::string name, state;
  pid_t parent = 0, group = 0;
  uint64_t ticks = 0;  // processor time, in units of 1 / sysconf(_SC_CLK_TCK) seconds
};

// Works only for a process whose name contains no space.
inline std::optional<ProcessStat> stat_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  ProcessStat s;
  std::string skipped;
  uint64_t user = 0, system = 0;
  file >> skipped >> s.name >> s.state >> s.parent >> s.group;
  for (int i = 0; i < 8; ++i) file >> skipped;
  if (!(file >> user >> system)) return std::nullopt;
  s.ticks = user + system;
  return s;
}

// Whether the process has ended; a zombie counts as ended.
inline bool is_gone(pid_t pid) {
  const std::optional<ProcessStat> stat = stat_of(pid);
  return !stat || stat->state == "Z";
}

// The processes, except zombies, for which `wanted` is true.
template <typename F>
std::vector<pid_t> processes_where(F&& wanted) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    const std::optional<ProcessStat> stat = pid > 0 ? stat_of(pid) : std::nullopt;
    if (stat && stat->state != "Z" && wanted(*stat)) found.push_back(pid);
  }
  return found;
}

// The compiler processes that `parent` has started.
inline std::vector<pid_t> children_of(pid_t parent) {
  return processes_where([&](const ProcessStat& s) {
    return s.parent == parent && s.name.find("lathe-compiler") != std::string::npos;
  });
}

// Waits up to two minutes: background compilation gets very little time when other tests keep all cores busy.
template <typename F>
bool comes_true(F&& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  for (; std::chrono::steady_clock::now() < end; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
    if (condition()) return true;
  return false;
}

}  // namespace lathe
