#include "runtime/cpu/cpu_facts.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "runtime/cpu/cpu_quota.h"
#include "runtime/cpu/machine_table.h"

namespace lathe {
namespace {

// Never the momentary clock ("cpu MHz" in /proc/cpuinfo): plans depend on it, and all ranks and processes
// must get the same plans.
Fact clock_fact(const CpuSystem& system, const CpuIdentity& id, const MachineRow& row) {
  if (id.clock_hz > 0) return {id.clock_hz, id.clock_source};
  if (const double hertz = parse_brand_hertz(id.name); hertz > 0) return {hertz, "cpuid brand string"};
  for (const char* file : {"base_frequency", "cpuinfo_max_freq"}) {
    const std::string path = absl::StrCat(processor_folder(system.processors.front()), "cpufreq/", file);
    double kilohertz = 0;
    if (absl::SimpleAtod(read_system_file(system, path), &kilohertz) && kilohertz > 0 &&
        std::isfinite(kilohertz))
      return {kilohertz * 1e3, path};
  }
  return {row.clock_hz, absl::StrCat("default: ", row.name, ", the clock of all cores under load")};
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

Fact cache_fact(const CpuSystem& system, const CacheLevel& cache) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder =
        absl::StrCat(processor_folder(system.processors.front()), "cache/index", index, "/");
    const std::string level = read_system_file(system, folder + "level");
    if (level.empty()) break;
    if (std::atoi(level.c_str()) != cache.level ||
        read_system_file(system, folder + "type") == "Instruction\n")
      continue;
    const int64_t bytes = parse_cache_size(read_system_file(system, folder + "size"));
    if (bytes > 0) return {static_cast<double>(bytes), folder + "size"};
  }
  // glibc reads cpuid leaf 4 (Intel) or 0x8000001d (AMD).
  if (const long bytes = sysconf(cache.sysconf_name); bytes > 0) {
    return {static_cast<double>(bytes), absl::StrCat("sysconf level ", cache.level, " cache size")};
  }
  return {cache.fallback, absl::StrCat("default: ", static_cast<int64_t>(cache.fallback), " bytes")};
}

}  // namespace

DeviceFacts cpu_facts(const CpuSystem& system, const CpuIdentity& id, const Target& target) {
  const Machine machine = find_machine(id);
  const MachineRow& row = *machine.row;
  // "default: " marks facts that come from a table and not from this machine.
  const std::string table = absl::StrCat("default: ", row.name, ", ");

  DeviceFacts facts;
  facts.name = id.name;
  facts.target = target;
  facts.machine = machine.text;
  facts.facts["cores"] = {static_cast<double>(count_cores(system)), "sched_getaffinity, /sys topology"};
  facts.facts["clock_hz"] = clock_fact(system, id, row);
  const bool wide = facts.target.has("avx512f");
  facts.facts["fma_units"] = {static_cast<double>(wide ? row.fma_units_512 : row.fma_units),
                              absl::StrCat(table, wide ? "512-bit" : "narrow", " multiply-adds per cycle")};
  for (const CacheLevel& cache : kCaches) facts.facts[cache.fact] = cache_fact(system, cache);
  facts.facts["memory_bytes_per_second"] = {row.memory_bytes_per_second,
                                            absl::StrCat(table, row.memory_source)};
  facts.facts["core_bytes_per_second"] = {row.core_bytes_per_second, table + "one core's reads, an estimate"};
  if (row.pace_bytes_per_second > 0)
    facts.facts["pace_bytes_per_second"] = {row.pace_bytes_per_second,
                                            table + "the rate that loops over memory are throttled to"};
  if (row.ahead_bytes_per_second > 0)
    facts.facts["ahead_bytes_per_second"] = {row.ahead_bytes_per_second,
                                             table + "one core's reads with software prefetch"};
  if (row.stream_bytes_per_second > 0)
    facts.facts["stream_bytes_per_second"] = {row.stream_bytes_per_second,
                                              table + "one core's reads of one stream"};
  if (row.prefetch_into_l1)
    facts.facts["prefetch_into_l1"] = {1, table + "software prefetches are faster into L1"};
  for (const CpuCost& cost : cpu_costs())
    if (cost.processor == row.costs)
      facts.facts[std::string(cost.fact)] = {cost.value,
                                             absl::StrCat("default: coefficients of ", row.costs)};
  return facts;
}

MachineIdentity machine_identity(const CpuSystem& system, const CpuIdentity& id, const DeviceFacts& facts) {
  MachineIdentity machine;
  machine.vendor = id.vendor;
  machine.family = id.family;
  machine.model = id.model;
  machine.stepping = id.stepping;
  machine.name = id.name;
  machine.target = facts.target;
  machine.cores = count_cores(system);
  machine.processors = allowed_processors(system);
  machine.l1d_bytes = static_cast<int64_t>(facts.fact_or("l1d_bytes", 0));
  machine.l2_bytes = static_cast<int64_t>(facts.fact_or("l2_bytes", 0));
  machine.l3_bytes = static_cast<int64_t>(facts.fact_or("l3_bytes", 0));
  machine.hypervisor = id.hypervisor;
  return machine;
}

MachineIdentity query_machine_identity(const DeviceFacts& facts) {
  const CpuSystem system = this_system();
  return machine_identity(system, identify_cpu(system), facts);
}

int64_t parse_cache_size(const std::string& text) {
  absl::string_view digits = absl::StripAsciiWhitespace(text);
  int64_t unit = 1;
  if (absl::ConsumeSuffix(&digits, "K")) {
    unit = int64_t{1} << 10;
  } else if (absl::ConsumeSuffix(&digits, "M")) {
    unit = int64_t{1} << 20;
  }
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t value;
  return absl::SimpleAtoi(digits, &value) && value > 0 && value <= kMost / unit ? value * unit : -1;
}

double parse_brand_hertz(const std::string& brand) {
  const size_t at = brand.rfind("@ ");
  if (at == std::string::npos) return -1;
  absl::string_view text = absl::StripAsciiWhitespace(absl::string_view(brand).substr(at + 2));
  double value;
  if (!absl::ConsumeSuffix(&text, "GHz") || !absl::SimpleAtod(text, &value) || value <= 0) return -1;
  return value * 1e9;
}

int32_t allowed_processors(const CpuSystem& system) {
  return std::min(static_cast<int32_t>(system.processors.size()), threads_for(cpu_quota(system)));
}

int32_t default_workers(const CpuSystem& system) {
  return std::min(count_cores(system), threads_for(cpu_quota(system)));
}

DeviceFacts query_cpu_facts() {
  const CpuSystem system = this_system();
  return cpu_facts(system, identify_cpu(system), permitted_target());
}

absl::StatusOr<DeviceFacts> query_cpu_facts_as(absl::string_view name) {
  LATHE_ASSIGN_OR_RETURN(const Target target, parse_target(name));
  const Target host = host_target();
  const auto refusal = [&](absl::string_view cause) {
    return absl::InvalidArgumentError(absl::StrCat("cpu: target ", name, ": this processor ", cause));
  };
  if (target.backend != Backend::kCpu || target.arch != host.arch)
    return refusal(absl::StrCat("is ", host.arch));
  const CpuSystem system = this_system();
  const CpuIdentity identity = identify_cpu(system);
  // The host's own set leaves out features that its kernels do not use, such as AVX-VNNI beside AVX-512.
  const auto has = [&](absl::string_view name) {
    for (const NamedCpuFeature& row : named_cpu_features())
      if (row.name == name && (identity.features & row.feature) != 0) return true;
    return host.has(name);
  };
  for (const absl::string_view feature : absl::StrSplit(target.features, ',', absl::SkipEmpty()))
    if (!has(feature.substr(1))) return refusal(absl::StrCat("lacks ", feature));
  LATHE_RETURN_IF_ERROR(acquire_registers(target));
  return cpu_facts(system, identity, target);
}

}  // namespace lathe
