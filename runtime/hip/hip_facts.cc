#include "runtime/hip/hip_facts.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "runtime/gpu/fact_reader.h"
#include "runtime/hip/agents.h"

namespace lathe {
namespace {

// Values of hipDeviceAttribute_t, which are the same from HIP 5.0 on.
enum Attribute : int {
  kClockRate = 5,  // kHz
  kL2CacheSize = 19,
  kMaxThreadsPerBlock = 56,
  kMemoryBusWidth = 59,   // bits
  kMemoryClockRate = 60,  // kHz
  kPciBus = 67,
  kPciDevice = 68,
  kPciDomain = 69,
  kMaxSharedMemoryPerBlock = 74,
};

// One row per architecture that Lathe compiles for. Per compute unit and clock: f32 operations of vector
// instructions (packed or dual-issued) and f16 operations of matrix instructions (dense, f32 accumulators);
// then the 32-bit registers of a compute unit, and the memory transfers per clock that the driver reports.
struct Architecture {
  const char* name;
  int f32_operations, matrix_f16_operations, registers, transfers;
  const char* source;
};
constexpr Architecture kArchitectures[] = {
    {"gfx90a", 256, 1024, 131072, 2,
     "AMD CDNA 2 architecture white paper and ROCm documentation, AMD GPU specifications"},
    {"gfx942", 256, 2048, 131072, 4,
     "AMD CDNA 3 architecture white paper and ROCm documentation, AMD GPU specifications"},
    {"gfx950", 256, 4096, 131072, 4,
     "AMD CDNA 4 architecture white paper and ROCm documentation, AMD GPU specifications"},
    {"gfx1100", 256, 512, 98304, 16,
     "AMD RDNA 3 Instruction Set Architecture reference guide; GPUOpen, Using the Matrix Cores of AMD RDNA 4 "
     "architecture GPUs"},
    {"gfx1200", 256, 1024, 98304, 16,
     "AMD RDNA 4 Instruction Set Architecture reference guide; GPUOpen, Using the Matrix Cores of AMD RDNA 4 "
     "architecture GPUs"},
    {"gfx1201", 256, 1024, 98304, 16,
     "AMD RDNA 4 Instruction Set Architecture reference guide; GPUOpen, Using the Matrix Cores of AMD RDNA 4 "
     "architecture GPUs"},
};

PciAddress place_of(const gpu::FactReader& read) {
  return {static_cast<uint32_t>(read.attribute(kPciDomain)), static_cast<uint32_t>(read.attribute(kPciBus)),
          static_cast<uint32_t>(read.attribute(kPciDevice))};
}

}  // namespace

absl::StatusOr<DeviceFacts> query_hip_facts(const gpu::Library& library, gpu::Device device) {
  gpu::FactReader read(library, device);
  LATHE_ASSIGN_OR_RETURN(const Agent agent, find_agent(library, place_of(read)));
  absl::StatusOr<Target> target = parse_target(agent.isa);
  if (!target.ok() || target->backend != Backend::kRocm)
    return absl::UnavailableError(absl::StrCat("Lathe has no kernels for its architecture, ", agent.isa));
  read.facts.target = *std::move(target);

  read.add("compute_units", agent.compute_units, "HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT");
  read.add("threads_per_unit", double(agent.waves_per_unit) * agent.wave_size,
           "HSA_AMD_AGENT_INFO_MAX_WAVES_PER_CU * HSA_AGENT_INFO_WAVEFRONT_SIZE");
  read.add_attribute("clock_hz", kClockRate, "hipDeviceAttributeClockRate", 1e3);
  read.add_attribute("l2_bytes", kL2CacheSize, "hipDeviceAttributeL2CacheSize");
  read.add_attribute("shared_memory_bytes", kMaxSharedMemoryPerBlock,
                     "hipDeviceAttributeMaxSharedMemoryPerBlock");
  read.add_attribute("max_workgroup_size", kMaxThreadsPerBlock, "hipDeviceAttributeMaxThreadsPerBlock");
  read.add("launch_seconds", 5e-6, "estimate: time for an empty kernel between two others in one stream");
  for (const Architecture& row : kArchitectures) {
    if (row.name != read.facts.target.arch) continue;
    read.add("registers_per_unit", row.registers, row.source);
    read.add(
        "memory_bytes_per_second",
        1e3 * row.transfers * read.attribute(kMemoryClockRate) * (read.attribute(kMemoryBusWidth) / 8.0),
        absl::StrCat(row.transfers,
                     " * hipDeviceAttributeMemoryClockRate * hipDeviceAttributeMemoryBusWidth / 8; estimate: "
                     "transfers per clock of the memory type on boards of this architecture"));
    read.add_rate("flops_f32", row.f32_operations, absl::StrCat(row.f32_operations), row.source);
    read.add_rate("flops_matrix_f16", row.matrix_f16_operations, absl::StrCat(row.matrix_f16_operations),
                  row.source);
  }
  return std::move(read.facts);
}

}  // namespace lathe
