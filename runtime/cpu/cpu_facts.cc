#include "runtime/cpu/cpu_facts.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <new>
#include <set>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/small_file.h"
#include "base/status.h"
#include "runtime/cpu/cpu_features.h"
#include "runtime/cpu/machine_table.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace lathe {
namespace {

constexpr char kCpuRoot[] = "/sys/devices/system/cpu/cpu";

// "" if the file cannot be read.
std::string read_system_file(const std::string& path) {
  constexpr size_t kMost = 1 << 20;
  return read_small_file(path, kMost).value_or("");
}

std::vector<int32_t> processors_in_mask() {
  std::vector<int32_t> processors;
  // The fixed cpu_set_t ends at 1024 processors; the system refuses a mask shorter than its own.
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

// Never the momentary clock (/proc/cpuinfo's "cpu MHz"): plans follow from it, and ranks and processes must
// agree.
Fact clock_fact(const CpuIdentity& id, const MachineRow& row) {
#if defined(__x86_64__)
  uint32_t eax, ebx, ecx, edx;
  if (__get_cpuid(0x16, &eax, &ebx, &ecx, &edx) && (eax & 0xffff) != 0) {
    return {(eax & 0xffff) * 1e6, "cpuid leaf 0x16 (base)"};
  }
  if (__get_cpuid(0x15, &eax, &ebx, &ecx, &edx) && eax != 0 && ebx != 0 && ecx != 0) {
    return {static_cast<double>(ecx) * ebx / eax, "cpuid leaf 0x15 (time stamp counter)"};
  }
#endif
  if (const double hertz = parse_brand_hertz(id.name); hertz > 0) return {hertz, "cpuid brand string"};
  for (const char* file : {"base_frequency", "cpuinfo_max_freq"}) {
    const std::string path = absl::StrCat(kCpuRoot, "0/cpufreq/", file);
    double kilohertz = 0;
    if (absl::SimpleAtod(absl::StripAsciiWhitespace(read_system_file(path)), &kilohertz) && kilohertz > 0) {
      return {kilohertz * 1e3, path};
    }
  }
  return {row.clock_hz, absl::StrCat("default: ", row.name, ", as all cores hold")};
}

struct CacheLevel {
  const char* fact;
  int level;
  int sysconf_name;
  double fallback;
};
constexpr CacheLevel kCaches[] = {
    {"l1d_bytes", 1, _SC_LEVEL1_DCACHE_SIZE, 32 << 10},
    {"l2_bytes", 2, _SC_LEVEL2_CACHE_SIZE, 512 << 10},
    {"l3_bytes", 3, _SC_LEVEL3_CACHE_SIZE, 8 << 20},
};

Fact cache_fact(const CacheLevel& cache, int32_t processor) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = absl::StrCat(kCpuRoot, processor, "/cache/index", index, "/");
    const std::string level = read_system_file(folder + "level");
    if (level.empty()) break;
    if (std::atoi(level.c_str()) != cache.level || read_system_file(folder + "type") == "Instruction\n")
      continue;
    const int64_t bytes = parse_cache_size(read_system_file(folder + "size"));
    if (bytes > 0) return {static_cast<double>(bytes), folder + "size"};
  }
  // glibc asks cpuid leaf 4 (Intel) or 0x8000001d (AMD).
  if (const long bytes = sysconf(cache.sysconf_name); bytes > 0) {
    return {static_cast<double>(bytes), absl::StrCat("sysconf level ", cache.level, " cache size")};
  }
  return {cache.fallback, absl::StrCat("default: ", static_cast<int64_t>(cache.fallback), " bytes")};
}

DeviceFacts facts_for(const Target& target) {
  const CpuIdentity id = identify_cpu();
  const MachineRow& row = machine_row(id);
  // "default: " marks what comes from a table rather than from this machine.
  const std::string table = absl::StrCat("default: ", row.name, ", ");

  DeviceFacts facts;
  facts.name = id.name;
  facts.target = target;
  facts.facts["cores"] = {static_cast<double>(allowed_cores()), "sched_getaffinity, /sys topology"};
  facts.facts["clock_hz"] = clock_fact(id, row);
  const bool wide = facts.target.has("avx512f");
  facts.facts["fma_units"] = {static_cast<double>(wide ? row.fma_units_512 : row.fma_units),
                              absl::StrCat(table, wide ? "512-bit" : "narrow", " multiply-adds per cycle")};
  const int32_t processor = processors_in_mask().front();
  for (const CacheLevel& cache : kCaches) facts.facts[cache.fact] = cache_fact(cache, processor);
  facts.facts["memory_bytes_per_second"] = {row.memory_bytes_per_second,
                                            absl::StrCat(table, row.memory_source)};
  facts.facts["core_bytes_per_second"] = {row.core_bytes_per_second, table + "one core's reads, an estimate"};
  if (row.pace_bytes_per_second > 0)
    facts.facts["pace_bytes_per_second"] = {row.pace_bytes_per_second,
                                            table + "what a loop over memory is held to"};
  if (row.ahead_bytes_per_second > 0)
    facts.facts["ahead_bytes_per_second"] = {row.ahead_bytes_per_second,
                                             table + "one core's reads where it fetches them ahead"};
  if (row.stream_bytes_per_second > 0)
    facts.facts["stream_bytes_per_second"] = {row.stream_bytes_per_second,
                                              table + "one core's reads of one stream"};
  return facts;
}

}  // namespace

int64_t parse_cache_size(const std::string& text) {
  absl::string_view digits = absl::StripAsciiWhitespace(text);
  int64_t unit = 1;
  if (absl::ConsumeSuffix(&digits, "K")) {
    unit = int64_t{1} << 10;
  } else if (absl::ConsumeSuffix(&digits, "M")) {
    unit = int64_t{1} << 20;
  }
  int64_t value;
  return absl::SimpleAtoi(digits, &value) && value > 0 && value < (int64_t{1} << 40) ? value * unit : -1;
}

double parse_brand_hertz(const std::string& brand) {
  const size_t at = brand.rfind("@ ");
  if (at == std::string::npos) return -1;
  absl::string_view text = absl::StripAsciiWhitespace(absl::string_view(brand).substr(at + 2));
  double value;
  if (!absl::ConsumeSuffix(&text, "GHz") || !absl::SimpleAtod(text, &value) || value <= 0) return -1;
  return value * 1e9;
}

int32_t parse_cpu_quota(const std::string& cpu_max) {
  double quota, period;
  const std::vector<std::string> fields = absl::StrSplit(cpu_max, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  if (fields.size() != 2 || !absl::SimpleAtod(fields[0], &quota) || !absl::SimpleAtod(fields[1], &period))
    return -1;
  if (!(quota > 0) || !(period > 0)) return -1;
  return static_cast<int32_t>(std::min(std::ceil(quota / period), 1e6));
}

int32_t allowed_processors() { return static_cast<int32_t>(processors_in_mask().size()); }

int32_t allowed_cores() {
  std::set<std::string> cores;  // each named by the list of its hardware threads
  for (const int32_t processor : processors_in_mask()) {
    const std::string path = absl::StrCat(kCpuRoot, processor, "/topology/");
    std::string threads = read_system_file(path + "core_cpus_list");
    if (threads.empty()) threads = read_system_file(path + "thread_siblings_list");
    cores.insert(threads.empty() ? absl::StrCat("processor ", processor) : threads);
  }
  return static_cast<int32_t>(cores.size());
}

int32_t default_workers() {
  const int32_t cores = allowed_cores();
  const int32_t quota = parse_cpu_quota(read_system_file("/sys/fs/cgroup/cpu.max"));
  return quota > 0 ? std::min(cores, quota) : cores;
}

DeviceFacts query_cpu_facts() { return facts_for(permitted_target()); }

absl::StatusOr<DeviceFacts> query_cpu_facts_as(absl::string_view name) {
  LATHE_ASSIGN_OR_RETURN(const Target target, parse_target(name));
  const Target host = host_target();
  const auto refusal = [&](absl::string_view cause) {
    return absl::InvalidArgumentError(absl::StrCat("cpu: target ", name, ": this processor ", cause));
  };
  if (target.backend != Backend::kCpu || target.arch != host.arch)
    return refusal(absl::StrCat("is ", host.arch));
  for (const absl::string_view feature : absl::StrSplit(target.features, ',', absl::SkipEmpty()))
    if (!host.has(feature.substr(1))) return refusal(absl::StrCat("lacks ", feature));
  LATHE_RETURN_IF_ERROR(acquire_registers(target));
  return facts_for(target);
}

}  // namespace lathe
