#include "runtime/cpu/calibrate/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "runtime/cpu/calibrate/memory_share.h"
#include "runtime/cpu/calibrate/rate_loops.h"
#include "runtime/cpu/cpu_facts.h"
#include "runtime/driver.h"
#include "system_tree.h"

namespace lathe {
namespace {

using testing::HasSubstr;

size_t threads_of_process() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

double value(const Measurement& m, const std::string& fact) {
  const auto found = m.facts.find(fact);
  return found == m.facts.end() ? 0 : found->second.value;
}

// Other work on the machine can disturb any rate, so a failed comparison gets two more tries.
TEST(Measure, ValuesArePlausible) {
  DeviceFacts facts = query_cpu_facts();
  facts.facts["l3_bytes"] = {32 << 20, "test: less memory"};
  MeasureOptions options;
  options.workers = default_workers();
  options.processors = allowed_processors();
  options.seconds = 1.5;
  for (int tries = 3; tries > 0; --tries) {
    const Measurement m = measure_cpu(facts, options);
    const auto rate = [&](const char* fact) { return value(m, fact); };
    const double all = rate("all_f32_products_per_second"), one = rate("f32_products_per_second");
    const bool ordered = rate("l1_bytes_per_second") >= 0.9 * rate("l2_bytes_per_second") &&
                         rate("l2_bytes_per_second") >= 0.9 * rate("core_bytes_per_second") &&
                         all >= 0.5 * one;
    if (!ordered && tries > 1) continue;
    EXPECT_TRUE(ordered) << rate("l1_bytes_per_second") << " " << rate("l2_bytes_per_second") << " "
                         << rate("core_bytes_per_second") << " " << all << " " << one;
    EXPECT_GT(rate("clock_hz"), 3e8);
    EXPECT_LT(rate("clock_hz"), 1e10);
    EXPECT_GE(rate("fma_units"), 1);
    EXPECT_LE(rate("fma_units"), 8);
    // A core starts at most eight full vectors in a cycle, and at least one in four.
    const double vectors = one / vector_lanes(facts.target) / rate("clock_hz");
    EXPECT_GT(vectors, 0.25);
    EXPECT_LT(vectors, 8);
    EXPECT_GT(rate("l1_stream_bytes_per_second"), 1e8);
    break;
  }
}

TEST(Measure, EveryFactIsKnownMeasuredAndHasASource) {
  MeasureOptions options;
  options.workers = 2;
  options.processors = allowed_processors();
  options.seconds = 0.6;
  options.pool_bytes = size_t{96} << 20;
  const Measurement m = measure_cpu(query_cpu_facts(), options);
  DeviceFacts facts = query_cpu_facts();
  facts.facts = m.facts;
  const auto read = facts_from_json(to_json(facts));
  ASSERT_TRUE(read.ok()) << read.status();
  for (const auto& [name, fact] : m.facts) {
    EXPECT_EQ(origin_of(fact), "measured") << name;
    EXPECT_EQ(m.absent.count(name), 0u) << name;
  }
  for (const auto& [name, why] : m.absent) EXPECT_FALSE(why.empty()) << name;
  for (const char* fact : {"clock_hz", "fma_units", "l1_bytes_per_second", "step_seconds", "task_seconds"})
    EXPECT_EQ(m.facts.count(fact), 1u) << fact;
}

// Other work on the machine can delay the end, so a late one gets two more tries.
TEST(Measure, EndsInTimeAndLeavesNoThread) {
  const size_t before = threads_of_process();
  MeasureOptions options;
  options.workers = 4;
  options.processors = 2;
  options.seconds = 1;
  options.pool_bytes = 8 << 20;
  std::chrono::duration<double> took{};
  for (int tries = 3; tries > 0; --tries) {
    const auto start = std::chrono::steady_clock::now();
    measure_cpu(query_cpu_facts(), options);
    took = std::chrono::steady_clock::now() - start;
    if (took.count() < 3) break;
  }
  EXPECT_LT(took.count(), 3);
  EXPECT_EQ(threads_of_process(), before);
}

TEST(Measure, OneWorkerHasNoSteps) {
  MeasureOptions options;
  options.seconds = 0.3;
  options.pool_bytes = 8 << 20;
  const Measurement m = measure_cpu(query_cpu_facts(), options);
  for (const char* fact : {"step_seconds", "task_seconds", "wake_seconds"})
    EXPECT_EQ(m.absent.count(fact), 1u) << fact;
}

TEST(Measure, MemoryThatTheCachesHoldIsNotMeasured) {
  DeviceFacts facts = query_cpu_facts();
  facts.facts["l3_bytes"] = {64 << 20, "test"};
  MeasureOptions options;
  options.seconds = 0.3;
  options.pool_bytes = size_t{100} << 20;  // less than twice the cache
  const Measurement m = measure_cpu(facts, options);
  for (const char* fact : {"core_bytes_per_second", "memory_bytes_per_second", "ahead_bytes_per_second",
                           "stream_bytes_per_second"}) {
    EXPECT_EQ(m.facts.count(fact), 0u) << fact;
    EXPECT_THAT(m.absent.at(fact), HasSubstr("needs 128 MiB")) << fact;
  }
}

TEST(Measure, DescribesNarrowerTargetsOfThisProcessor) {
  for (const char* name : {"x86-64-avx2", "x86-64-avx512", "x86-64-avx512vnni", "aarch64-neon"}) {
    const auto facts = query_cpu_facts_as(name);
    if (!facts.ok()) continue;  // not a target of this processor
    MeasureOptions options;
    options.seconds = 0.3;
    options.pool_bytes = 8 << 20;
    const Measurement m = measure_cpu(*facts, options);
    EXPECT_GT(value(m, "f32_products_per_second"), 0) << name;
    EXPECT_EQ(m.facts.count("tile_int8_products_per_second"), 0u) << name;
  }
}

TEST(Measure, PoolIsFourTimesTheLastCacheWithinLimits) {
  DeviceFacts facts;
  facts.facts = {{"l2_bytes", {1 << 20, "test"}}, {"l3_bytes", {32 << 20, "test"}}};
  EXPECT_EQ(pool_bytes_for(facts, 1, SIZE_MAX), size_t{128} << 20);
  EXPECT_EQ(pool_bytes_for(facts, 3, SIZE_MAX), size_t{384} << 20) << "workers may have caches of their own";
  EXPECT_EQ(pool_bytes_for(facts, 3, size_t{256} << 20), size_t{64} << 20)
      << "a quarter of what is available";
  facts.facts["l3_bytes"].value = 2e9;
  EXPECT_EQ(pool_bytes_for(facts, 1, SIZE_MAX), size_t{1500000000});
}

TEST(Measure, AvailableMemoryIsTheLeastOfSystemAndGroups) {
  SystemTree tree;
  EXPECT_EQ(available_memory(tree.system()), SIZE_MAX);
  tree.write("/proc/meminfo", "MemTotal:       100 kB\nMemAvailable:   2048 kB\n");
  EXPECT_EQ(available_memory(tree.system()), size_t{2048} << 10);
  tree.write("/proc/self/cgroup", "0::/a/b\n");
  tree.write("/sys/fs/cgroup/a/memory.max", "1048576\n").write("/sys/fs/cgroup/a/memory.current", "48576\n");
  tree.write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(available_memory(tree.system()), 1000000u);
  tree.write("/sys/fs/cgroup/a/memory.stat", "anon 8576\ninactive_file 30000\nactive_file 10000\nslab 1\n");
  EXPECT_EQ(available_memory(tree.system()), 1040000u) << "page cache can be reclaimed";
  tree.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "500000\n");
  tree.write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "600000\n");
  EXPECT_EQ(available_memory(tree.system()), 0u) << "more is used than allowed";
  tree.write("/sys/fs/cgroup/memory/memory.stat", "total_inactive_file 150000\ntotal_active_file 50000\n");
  EXPECT_EQ(available_memory(tree.system()), 100000u);
}

TEST(MemoryBlock, TouchesUntilTheDeadline) {
  const MemoryBlock all(size_t{40} << 20, steady_seconds() + 60);
  EXPECT_EQ(all.size(), size_t{40} << 20);
  EXPECT_EQ(all.data()[0], 1);
  EXPECT_EQ(all.data()[all.size() - 1], 1);
  const MemoryBlock late(size_t{400} << 20, steady_seconds() - 1);
  EXPECT_LT(late.size(), size_t{400} << 20);
  EXPECT_EQ(MemoryBlock(size_t{1} << 60, steady_seconds() + 1).size(), 0u) << "more than any system has";
}

TEST(CalibrateCpu, NamesThisMachineAndItsWorkers) {
  DriverOptions options;
  options.workers = 2;
  CalibrateOptions calibrate;
  calibrate.seconds = 0.3;
  calibrate.pool_bytes = 8 << 20;
  const auto calibrated = calibrate_device("cpu", options, calibrate);
  ASSERT_TRUE(calibrated.ok()) << calibrated.status();
  EXPECT_EQ(calibrated->calibration.workers, 2);
  EXPECT_EQ(calibrated->calibration.machine, query_machine_identity(query_cpu_facts()));
  EXPECT_EQ(to_json(calibrated->before), to_json(query_cpu_facts()));
  EXPECT_FALSE(calibrated->calibration.facts.empty());
  // The device of a machine that a file knows has the file's facts.
  CalibrationFile file = {"/x.json", {calibrated->calibration}, {}};
  options.calibrations = &file;
  const auto driver = open_driver("cpu", options);
  ASSERT_TRUE(driver.ok()) << driver.status();
  EXPECT_EQ((*driver)->facts().facts.at("clock_hz").value,
            calibrated->calibration.facts.at("clock_hz").value);
  EXPECT_EQ((*driver)->facts().calibration, "measured with 2 workers: /x.json");
}

TEST(CalibrateCpu, OtherBackendsAreRefused) {
  for (const char* name : {"cuda:0", "hip:0", "spirv"}) {
    const absl::Status status = calibrate_device(name, {}, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << name;
    EXPECT_EQ(status.message(),
              "calibrate: " + std::string(name) + " cannot be measured; only the device cpu can");
  }
  EXPECT_EQ(calibrate_device("tpu", {}, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(calibrate_device("cpu:7", {}, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(MachineIdentity, ComesFromTheSystemAndTheProcessor) {
  SystemTree tree({0, 1, 2, 3});
  for (int cpu = 0; cpu < 4; ++cpu)
    tree.write(processor_folder(cpu) + "topology/core_cpus_list", cpu < 2 ? "0-1\n" : "2-3\n");
  CpuIdentity id;
  id.vendor = "GenuineIntel";
  id.family = 6;
  id.model = 207;
  id.stepping = 2;
  id.name = "Xeon";
  id.hypervisor = "KVMKVMKVM";
  const DeviceFacts facts = cpu_facts(tree.system(), id, parse_target("x86-64-avx512").value());
  const MachineIdentity machine = machine_identity(tree.system(), id, facts);
  EXPECT_EQ(machine.vendor + " " + machine.name + " " + machine.hypervisor, "GenuineIntel Xeon KVMKVMKVM");
  EXPECT_EQ(machine.family, 6);
  EXPECT_EQ(machine.model, 207);
  EXPECT_EQ(machine.stepping, 2);
  EXPECT_EQ(machine.cores, 2);
  EXPECT_EQ(machine.processors, 4);
  EXPECT_EQ(machine.target, facts.target);
  EXPECT_EQ(static_cast<double>(machine.l2_bytes), facts.facts.at("l2_bytes").value);
}

}  // namespace
}  // namespace lathe
