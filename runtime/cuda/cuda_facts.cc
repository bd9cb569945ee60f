#include "runtime/cuda/cuda_facts.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "runtime/gpu/fact_reader.h"

namespace lathe {
namespace {

// One row per compute capability that Lathe compiles for: the target, and per multiprocessor and clock the
// f32 FMA lanes and the f16 operations of the tensor cores (dense, f32 accumulators). The numbers are from
// NVIDIA's whitepapers and the CUDA C++ Programming Guide's table of arithmetic throughput.
struct Architecture {
  int capability;      // 10 * major + minor
  const char* target;  // as parse_target reads it
  int f32_lanes;
  int matrix_f16_operations;
  const char* source;
};
constexpr Architecture kArchitectures[] = {
    {75, "sm_75", 64, 1024, "NVIDIA Turing GPU Architecture whitepaper"},
    {80, "sm_80", 64, 2048, "NVIDIA A100 Tensor Core GPU Architecture whitepaper"},
    {86, "sm_86", 128, 1024, "NVIDIA Ampere GA102 GPU Architecture whitepaper"},
    {87, "sm_87", 128, 2048, "NVIDIA Jetson AGX Orin Series Technical Brief"},
    {89, "sm_89", 128, 1024, "NVIDIA Ada GPU Architecture whitepaper"},
    {90, "sm_90a", 128, 4096, "NVIDIA H100 Tensor Core GPU Architecture whitepaper"},
    {100, "sm_100a", 128, 8192, "NVIDIA Blackwell Architecture Technical Brief"},
    {103, "sm_103a", 128, 8192, "NVIDIA Blackwell Architecture Technical Brief"},
    {120, "sm_120", 128, 1024, "NVIDIA RTX Blackwell GPU Architecture whitepaper"},
    {121, "sm_121", 128, 1024, "NVIDIA RTX Blackwell GPU Architecture whitepaper"},
};

// A capability without a row uses the newest generic row below it, as PTX that the driver assembles. A target
// that ends in "a" runs only on exactly that device, so sm_90 is used instead, which later generations run.
struct Match {
  const Architecture* row;
  const char* target;
};
absl::StatusOr<Match> match(int capability) {
  const Architecture* best = nullptr;
  for (const Architecture& row : kArchitectures) {
    if (row.capability == capability) return Match{&row, row.target};
    if (row.capability < capability) best = &row;
  }
  if (best == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("its compute capability ", capability / 10, ".", capability % 10, " is below 7.5"));
  }
  const bool exact = absl::string_view(best->target).back() == 'a';
  return Match{best, exact ? "sm_90" : best->target};
}

}  // namespace

absl::StatusOr<DeviceFacts> query_cuda_facts(const gpu::Library& library, gpu::Device device) {
  gpu::FactReader read(library, device);
  const int capability =
      10 * read.attribute(gpu::kComputeCapabilityMajor) + read.attribute(gpu::kComputeCapabilityMinor);
  LATHE_ASSIGN_OR_RETURN(const Match found, match(capability));
  LATHE_ASSIGN_OR_RETURN(read.facts.target, parse_target(found.target));

  read.add_attribute("compute_units", gpu::kMultiprocessorCount, "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT");
  read.add_attribute("clock_hz", gpu::kClockRate, "CU_DEVICE_ATTRIBUTE_CLOCK_RATE", 1e3);
  read.add_attribute("l2_bytes", gpu::kL2CacheSize, "CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE");
  read.add_attribute("shared_memory_bytes", gpu::kMaxSharedMemoryPerBlockOptin,
                     "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN");
  read.add_attribute("registers_per_unit", gpu::kMaxRegistersPerMultiprocessor,
                     "CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR");
  read.add_attribute("threads_per_unit", gpu::kMaxThreadsPerMultiprocessor,
                     "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR");
  read.add_attribute("max_workgroup_size", gpu::kMaxThreadsPerBlock,
                     "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK");
  // DDR memory transfers data on both edges of its clock.
  read.add("memory_bytes_per_second",
           2e3 * read.attribute(gpu::kMemoryClockRate) * (read.attribute(gpu::kMemoryBusWidth) / 8.0),
           "2 * CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE * CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH / 8");

  const Architecture& row = *found.row;
  read.add_rate("flops_f32", row.f32_lanes * 2, absl::StrCat(row.f32_lanes, " lanes * 2"), row.source);
  read.add_rate("flops_matrix_f16", row.matrix_f16_operations, absl::StrCat(row.matrix_f16_operations),
                row.source);
  read.add("launch_seconds", 2.5e-6, "estimate: time for an empty kernel between two others in one stream");
  return std::move(read.facts);
}

}  // namespace lathe
