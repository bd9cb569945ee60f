#include "runtime/cpu/calibrate/memory_share.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace lathe {
namespace {

// The number in a file of the system; `otherwise` if it has none ("max").
uint64_t number_in(const CpuSystem& system, absl::string_view path, uint64_t otherwise) {
  uint64_t value;
  return absl::SimpleAtoi(absl::StripAsciiWhitespace(read_system_file(system, path)), &value) ? value
                                                                                              : otherwise;
}

// The names of a cgroup's files, and of the fields of memory.stat that count its page cache.
struct GroupFiles {
  const char *limit, *used, *inactive_cache, *active_cache;
};
constexpr GroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                                  "total_active_file"};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current", "inactive_file", "active_file"};

// What a group has left of its limit; UINT64_MAX without a limit. Page cache counts as left, because the kernel
// reclaims it.
uint64_t left_in(const CpuSystem& system, const std::string& folder, const GroupFiles& files) {
  const uint64_t most = number_in(system, absl::StrCat(folder, "/", files.limit), UINT64_MAX);
  if (most == UINT64_MAX) return most;
  uint64_t used = number_in(system, absl::StrCat(folder, "/", files.used), 0);
  const std::string statistics = read_system_file(system, absl::StrCat(folder, "/memory.stat"));
  for (const absl::string_view line : absl::StrSplit(statistics, '\n')) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    uint64_t bytes;
    if ((field.first == files.inactive_cache || field.first == files.active_cache) &&
        absl::SimpleAtoi(field.second, &bytes))
      used -= std::min(used, bytes);
  }
  return most - std::min(most, used);
}

uint64_t left_in_groups(const CpuSystem& system) {
  uint64_t least = left_in(system, "/sys/fs/cgroup/memory", kVersion1);
  std::string folder = "/sys/fs/cgroup";
  least = std::min(least, left_in(system, folder, kVersion2));
  const std::string membership = read_system_file(system, "/proc/self/cgroup");
  for (const absl::string_view line : absl::StrSplit(membership, '\n')) {
    absl::string_view group = line;
    if (!absl::ConsumePrefix(&group, "0::/")) continue;
    for (const absl::string_view name : absl::StrSplit(group, '/', absl::SkipEmpty())) {
      absl::StrAppend(&folder, "/", name);
      least = std::min(least, left_in(system, folder, kVersion2));
    }
  }
  return least;
}

// "MemAvailable:   23856 kB" in /proc/meminfo; UINT64_MAX without it.
uint64_t left_in_system(const CpuSystem& system) {
  const std::string text = read_system_file(system, "/proc/meminfo");
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    uint64_t kilobytes;
    if (absl::ConsumePrefix(&line, "MemAvailable:") && absl::ConsumeSuffix(&line, "kB") &&
        absl::SimpleAtoi(absl::StripAsciiWhitespace(line), &kilobytes) && kilobytes < UINT64_MAX >> 10)
      return kilobytes << 10;
  }
  return UINT64_MAX;
}

}  // namespace

size_t available_memory(const CpuSystem& system) {
  return static_cast<size_t>(std::min<uint64_t>({left_in_system(system), left_in_groups(system), SIZE_MAX}));
}

MemoryBlock::MemoryBlock(size_t bytes, double deadline) {
  constexpr size_t kStep = 16 << 20;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  data_ = static_cast<char*>(memory);
  mapped_ = bytes;
  while (size_ < bytes && (size_ == 0 || steady_seconds() < deadline)) {
    const size_t step = std::min(kStep, bytes - size_);
    std::memset(data_ + size_, 1, step);  // untouched pages would all be one page of zeros, in L1
    size_ += step;
  }
}

MemoryBlock::~MemoryBlock() {
  if (data_ != nullptr) munmap(data_, mapped_);
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace lathe
