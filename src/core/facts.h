// DeviceFacts: the properties of a device, each number with its source. The oracle knows the hardware only
// through facts. Target: what code is generated for.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/json.h"

namespace lathe {

// kSpirv is compile-only: Lathe plans, compiles and caches SPIR-V kernels but has no driver that runs them.
enum class Backend : int32_t { kCpu = 1, kCuda = 2, kRocm = 3, kSpirv = 4 };
inline constexpr Backend kBackends[] = {Backend::kCpu, Backend::kCuda, Backend::kRocm, Backend::kSpirv};
absl::string_view name_of(Backend b);  // "cpu", "cuda", "rocm", "spirv"

// The exact target of a compilation. It is part of the cache key, so it holds no device ordinal and no path.
struct Target {
  Backend backend = Backend::kCpu;
  // "x86-64", "aarch64", "sm_90a", "gfx942", "spirv64", "pvc". AMD's xnack and sramecc modes are features.
  std::string arch;
  // LLVM feature names with a sign, sorted and comma-separated: "+avx2,+avx512bw,...,+fma", "+sramecc,-xnack".
  // Contains only the features that code generation uses. Empty for CUDA.
  std::string features;

  bool has(absl::string_view feature) const;  // "avx512f"
  bool operator==(const Target& o) const {
    return backend == o.backend && arch == o.arch && features == o.features;
  }
};

// 90 for "sm_90a"; 0 for targets of other backends.
int sm_version(const Target& target);
// Whether a kernel can start before the previous one ends and wait for it (programmatic dependent launch).
inline bool has_dependent_launch(const Target& target) { return sm_version(target) >= 90; }
// Sorts a comma-separated list of features into the form of Target::features. kInvalidArgument if a feature
// has no sign or occurs twice.
absl::StatusOr<std::string> canonical_features(absl::string_view features);
// The feature sets of x86-64, from the widest to the narrowest. A host gets the widest set that it supports
// completely. So its target equals a named one, and it finds kernels that were compiled for that name.
// Features that no kernel uses (AVX512-FP16, AVX-VNNI beside AVX-512) are left out: they would give different keys to
// machines that run the same code.
// clang-format off
inline constexpr absl::string_view kX86Avx512Bf16 =
    "+avx,+avx2,+avx512bf16,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,+avx512vnni,+bmi,+bmi2,+f16c,"
    "+fma,+lzcnt,+popcnt";
inline constexpr absl::string_view kX86Amx =
    "+amx-bf16,+amx-int8,+amx-tile,+avx,+avx2,+avx512bf16,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,"
    "+avx512vnni,+bmi,+bmi2,+f16c,+fma,+lzcnt,+popcnt";
inline constexpr absl::string_view kX86Avx512Vnni =
    "+avx,+avx2,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,+avx512vnni,+bmi,+bmi2,+f16c,+fma,+lzcnt,"
    "+popcnt";
// clang-format on
inline constexpr absl::string_view kX86Avx512 =
    "+avx,+avx2,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,+bmi,+bmi2,+f16c,+fma,+lzcnt,+popcnt";
inline constexpr absl::string_view kX86Avx2 = "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+popcnt";
inline constexpr absl::string_view kX86AvxVnni = "+avx,+avx2,+avxvnni,+bmi,+bmi2,+f16c,+fma,+lzcnt,+popcnt";
inline constexpr absl::string_view kX86FeatureSets[] = {kX86Amx,    kX86Avx512Bf16, kX86Avx512Vnni,
                                                        kX86Avx512, kX86AvxVnni,    kX86Avx2};
// The same for AArch64. Vectors have 128 bits in all sets. kArmSve2 adds the masked loads and stores that
// NEON lacks, at the vector length that every implementation supports. Every core with bf16 has i8mm, too
// (Arm's cores, and both are mandatory from Armv8.6 on).
inline constexpr absl::string_view kArmSve2 = "+bf16,+dotprod,+fullfp16,+i8mm,+neon,+sve,+sve2";
inline constexpr absl::string_view kArmBf16 = "+bf16,+dotprod,+fullfp16,+i8mm,+neon";
inline constexpr absl::string_view kArmDotprod = "+dotprod,+fullfp16,+neon";
inline constexpr absl::string_view kArmHalf = "+fullfp16,+neon";
inline constexpr absl::string_view kArmNeon = "+neon";  // Armv8.0
inline constexpr absl::string_view kArmFeatureSets[] = {kArmSve2, kArmBf16, kArmDotprod, kArmHalf, kArmNeon};
Json to_json(const Target& t);
absl::StatusOr<Target> target_from_json(const Json& j);
// Named targets:
//   "x86-64-avx2", "x86-64-avxvnni" (Alder Lake), "x86-64-avx512", "x86-64-avx512vnni", "x86-64-avx512bf16",
//   "x86-64-amx" (includes AVX512-BF16: Sapphire Rapids and later),
//   "aarch64-neon" (Armv8.2, with f16 instructions), "aarch64-dotprod", "aarch64-bf16" (bf16 and i8mm),
//   "aarch64-sve2",
//   "sm_75" ... "sm_90a", "gfx942", "gfx90a", "gfx1100" ...,
//   "spirv64" (any 64-bit OpenCL 2.2 device), "pvc", "bmg" (Intel Xe-HPC and Xe2)
absl::StatusOr<Target> parse_target(absl::string_view name);
// CPU: the f32 lanes of the widest vector that the kernels use (AVX-512 16, AVX2 8, AArch64 4), and the number
// of vector registers (32, 16, 32).
int vector_lanes(const Target& t);
int vector_registers(const Target& t);
int wave_size(const Target& t);  // GPU: 32 or 64

struct Fact {
  double value = 0;
  // "cpuid leaf 4", "/sys/.../size", "NVIDIA H200 datasheet, 2024". It starts with "measured: " if a calibration
  // measured the fact (core/calibration.h), and with "default: " if it comes from a table of processors.
  std::string source;
};
inline constexpr absl::string_view kMeasuredPrefix = "measured: ", kTablePrefix = "default: ";
absl::string_view origin_of(const Fact& fact);  // "measured", "table", or "system" for all other sources

// The known facts. The oracle does not read those yet that only a calibration gives. Each value is finite, greater than 0 and less than 1e18. Only a cache size
// may be 0: the device has no such cache. The oracle uses a default for an absent fact.
//   CPU:  cores, clock_hz, fma_units, l1d_bytes, l2_bytes, l3_bytes,
//         memory_bytes_per_second   one socket
//         core_bytes_per_second     one core, reading
//         pace_bytes_per_second     the rate that loops over memory are throttled to; absent: no throttle
//         prefetch_into_l1          1: software prefetches go into L1; absent: into L2
//         ahead_bytes_per_second    one core, reading with software prefetch; absent: as core_bytes_per_second
//         stream_bytes_per_second   one core, reading a single stream; absent: as ahead_bytes_per_second
//         cost_issue, cost_memory and so on: coefficients of the cost model (core/cpu_costs.h)
//   CPU, only from a calibration:
//         f32_products_per_second   multiply-adds of elements by one core, with the widest vectors of the target
//         int8_products_per_second  the same for bytes, with the instruction that the target's kernels use
//         bf16_products_per_second  the same for bf16; absent if kernels convert bf16 to f32
//         tile_int8_products_per_second, tile_bf16_products_per_second  the same with AMX tiles
//         l1_, l2_, l3_bytes_per_second         one core, reading several streams that the cache holds
//         l1_, l2_, l3_stream_bytes_per_second  the same for a single stream
//         all_X                     X of all workers together, for the products and for l3_bytes_per_second
//         task_seconds              a worker's time to take a task and to enter it
//         step_seconds              beyond its longest task, a step of one task per worker, if the workers are awake
//         wake_seconds              the same if they sleep
//   A calibration replaces clock_hz, fma_units, core_, ahead_ and stream_bytes_per_second, and
//   memory_bytes_per_second by what all workers read together.
//   GPU:  compute_units, clock_hz, memory_bytes_per_second, l2_bytes, shared_memory_bytes (per workgroup),
//         registers_per_unit, max_workgroup_size, threads_per_unit (maximum resident), launch_seconds,
//         flops_f32, flops_matrix_f16
struct DeviceFacts {
  std::string name;  // "NVIDIA H200 SXM 141GB", "Intel(R) Xeon(R) ..."
  Target target;
  std::map<std::string, Fact> facts;
  // How the processor was identified, for people: facts whose source starts with "default: " come from the
  // table row that was found. Empty if no table was used. Not part of any key or fingerprint, like `source`.
  std::string machine;
  // Whether a calibration was used, or why not, for people: "measured with 2 workers: /.../calibration.json". Empty if
  // there was none. Not part of any key or fingerprint either.
  std::string calibration;

  double fact_or(const std::string& key, double fallback) const;
};
Json to_json(const DeviceFacts& f);
// {"name":..., "target":"sm_90a" or {...}, "facts":{"l2_bytes":{"value":..., "source":"..."}}}, and "machine" and
// "calibration" if they are not empty. A fact without a source and an unknown fact name are errors.
absl::StatusOr<DeviceFacts> facts_from_json(const Json& j);
absl::StatusOr<DeviceFacts> load_facts(const std::string& path);
// The "facts" object of the above alone. read_fact_values throws, for use inside read_json.
Json fact_values_json(const std::map<std::string, Fact>& facts);
std::map<std::string, Fact> read_fact_values(const Json& j);

}  // namespace lathe
