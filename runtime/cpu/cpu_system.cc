#include "runtime/cpu/cpu_system.h"

#include <sched.h>

#include <map>
#include <memory>
#include <new>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/small_file.h"

namespace lathe {
namespace {

std::vector<int32_t> processors_in_mask() {
  std::vector<int32_t> processors;
  // A fixed cpu_set_t holds 1024 processors, and the system rejects a mask that is shorter than its own.
  for (int capacity = CPU_SETSIZE; capacity <= 64 * CPU_SETSIZE; capacity *= 2) {
    cpu_set_t* mask = CPU_ALLOC(capacity);
    if (mask == nullptr) throw std::bad_alloc();
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> owned(mask, [](cpu_set_t* m) { CPU_FREE(m); });
    const size_t bytes = CPU_ALLOC_SIZE(capacity);
    const bool known = sched_getaffinity(0, bytes, mask) == 0;
    for (int cpu = 0; known && cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, mask)) processors.push_back(cpu);
    }
    if (known) break;
  }
  if (processors.empty()) processors.push_back(0);
  return processors;
}

// Maps a processor to "socket, core", if /proc/cpuinfo has these numbers (x86).
std::map<int32_t, std::string> cores_of_cpuinfo(const CpuSystem& system) {
  std::map<int32_t, std::string> cores;
  const std::string text = read_system_file(system, "/proc/cpuinfo");
  for (const absl::string_view block : absl::StrSplit(text, "\n\n")) {
    std::map<std::string, std::string> fields;
    for (const absl::string_view line : absl::StrSplit(block, '\n')) {
      const std::pair<absl::string_view, absl::string_view> parts =
          absl::StrSplit(line, absl::MaxSplits(':', 1));
      fields[std::string(absl::StripAsciiWhitespace(parts.first))] =
          std::string(absl::StripAsciiWhitespace(parts.second));
    }
    int32_t processor;
    const std::string socket = fields["physical id"], core = fields["core id"];
    if (absl::SimpleAtoi(fields["processor"], &processor) && !socket.empty() && !core.empty())
      cores[processor] = absl::StrCat("socket ", socket, ", core ", core);
  }
  return cores;
}

}  // namespace

CpuSystem this_system() { return {"", processors_in_mask()}; }

std::string read_system_file(const CpuSystem& system, absl::string_view path) {
  constexpr size_t kMost = 16 << 20;  // on a host with a thousand containers, mountinfo has megabytes
  return read_small_file(absl::StrCat(system.root, path), kMost).value_or("");
}

std::string processor_folder(int32_t processor) {
  return absl::StrCat("/sys/devices/system/cpu/cpu", processor, "/");
}

int32_t count_cores(const CpuSystem& system) {
  std::set<std::string> cores;  // each is named by its list of hardware threads
  std::vector<int32_t> unlisted;
  for (const int32_t processor : system.processors) {
    const std::string folder = absl::StrCat(processor_folder(processor), "topology/");
    std::string threads = read_system_file(system, folder + "core_cpus_list");
    if (threads.empty()) threads = read_system_file(system, folder + "thread_siblings_list");
    if (threads.empty()) {
      unlisted.push_back(processor);
    } else {
      cores.insert(threads);
    }
  }
  if (unlisted.empty()) return static_cast<int32_t>(cores.size());
  const std::map<int32_t, std::string> named = cores_of_cpuinfo(system);
  for (const int32_t processor : unlisted) {
    const auto core = named.find(processor);
    cores.insert(core != named.end() ? core->second : absl::StrCat("processor ", processor));
  }
  return static_cast<int32_t>(cores.size());
}

}  // namespace lathe
