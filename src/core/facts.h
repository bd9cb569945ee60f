// What is known of a device, each number with where it came from. Facts are the oracle's only view of
// hardware.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/json.h"

namespace lathe {

// kSpirv is compile-only: kernels are planned, compiled and kept, and no driver here runs them.
enum class Backend : int32_t { kCpu = 1, kCuda = 2, kRocm = 3, kSpirv = 4 };
inline constexpr Backend kBackends[] = {Backend::kCpu, Backend::kCuda, Backend::kRocm, Backend::kSpirv};
absl::string_view name_of(Backend b);  // "cpu", "cuda", "rocm", "spirv"

// The exact target of a compilation; in the key. No device ordinal, no path.
struct Target {
  Backend backend = Backend::kCpu;
  // "x86-64", "aarch64"; "sm_90a"; "gfx942"; "spirv64", "pvc". For AMD, xnack and sramecc modes are features.
  std::string arch;
  // Canonical: sorted, comma-separated LLVM feature names with a sign, only those that code generation asks
  // about ("+avx2,+avx512bw,...,+fma"; "+sramecc,-xnack"). "" for CUDA.
  std::string features;

  bool has(absl::string_view feature) const;  // "avx512f"
  bool operator==(const Target& o) const {
    return backend == o.backend && arch == o.arch && features == o.features;
  }
};

// 90 of "sm_90a"; 0 of another backend's target.
int sm_version(const Target& target);
// Whether a kernel may start while the one before it runs, and wait for it.
inline bool has_dependent_launch(const Target& target) { return sm_version(target) >= 90; }
// Sorts comma-separated signed features as Target::features wants them; kInvalidArgument for one without a
// sign or given twice.
absl::StatusOr<std::string> canonical_features(absl::string_view features);
// x86-64's feature sets, the widest first. Code generation asks about no feature outside them, and a
// processor has a set whole or not at all, so that a host's target equals the named one and finds what was
// warmed under that name. What no kernel uses yet (AVX512-FP16, AVX-VNNI) is left out: it would part the
// keys of machines that run the same code.
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
inline constexpr absl::string_view kX86FeatureSets[] = {kX86Amx, kX86Avx512Bf16, kX86Avx512Vnni, kX86Avx512,
                                                        kX86Avx2};
// AArch64's, likewise. Vectors have 128 bits in each: SVE2's instructions are used for what NEON lacks (loads
// and stores under a mask), at the length every implementation has.
inline constexpr absl::string_view kArmSve2 = "+bf16,+dotprod,+fullfp16,+neon,+sve,+sve2";
inline constexpr absl::string_view kArmBf16 = "+bf16,+dotprod,+fullfp16,+neon";
inline constexpr absl::string_view kArmDotprod = "+dotprod,+fullfp16,+neon";
inline constexpr absl::string_view kArmHalf = "+fullfp16,+neon";
inline constexpr absl::string_view kArmNeon = "+neon";  // of Armv8.0
inline constexpr absl::string_view kArmFeatureSets[] = {kArmSve2, kArmBf16, kArmDotprod, kArmHalf, kArmNeon};
Json to_json(const Target& t);
absl::StatusOr<Target> target_from_json(const Json& j);
// Named targets: "x86-64-avx2" "x86-64-avx512" "x86-64-avx512vnni" "x86-64-avx512bf16"
// "x86-64-amx" (with AVX512-BF16: Sapphire Rapids and later)
// "aarch64-neon" (with f16 instructions: Armv8.2) "aarch64-dotprod" "aarch64-bf16" "aarch64-sve2"
// "sm_75" ... "sm_90a" "gfx942" "gfx90a" "gfx1100" ...
// "spirv64" (any OpenCL 2.2 device of 64 bits) "pvc" "bmg" (Intel's Xe-HPC and Xe2)
absl::StatusOr<Target> parse_target(absl::string_view name);
// CPU: f32 lanes of the widest vector the kernels use (16, 8, 4) and how many vector registers there are (32,
// 16, 32).
int vector_lanes(const Target& t);
int vector_registers(const Target& t);
int wave_size(const Target& t);  // GPU: 32 or 64

struct Fact {
  double value = 0;
  std::string source;  // "cpuid leaf 4", "/sys/.../size", "NVIDIA H200 datasheet, 2024"
};

// Facts the oracle reads. Absent facts take the documented default in `fact_or`. Each is finite, above 0 and
// below 1e18; a cache of 0 bytes is one that the device lacks: nothing fits it.
//   CPU:  cores, clock_hz, fma_units, l1d_bytes, l2_bytes, l3_bytes, memory_bytes_per_second (one socket),
//         core_bytes_per_second (what one core can read), pace_bytes_per_second (what its loops over
//         memory are held to; absent: to nothing), ahead_bytes_per_second (what it reads where instructions
//         fetch what its own prefetchers would; absent: no less), stream_bytes_per_second (of one stream;
//         absent: as ahead)
//   GPU:  compute_units, clock_hz, memory_bytes_per_second, l2_bytes, shared_memory_bytes (per workgroup),
//         registers_per_unit, max_workgroup_size, threads_per_unit (resident), launch_seconds, flops_f32,
//         flops_matrix_f16
struct DeviceFacts {
  std::string name;  // "NVIDIA H200 SXM 141GB", "Intel(R) Xeon(R) ..."
  Target target;
  std::map<std::string, Fact> facts;
  // How the processor was told, on which "default: " facts rest: for people. "" where nothing was looked up.
  // Like sources it is in no key and in no fingerprint.
  std::string machine;

  double fact_or(const std::string& key, double fallback) const;
};
Json to_json(const DeviceFacts& f);
// {"name":..., "target":"sm_90a" or {...}, "facts":{"l2_bytes":{"value":..., "source":"..."}}}, and "machine"
// where it is not empty; every fact must have a source; unknown fact names are an error.
absl::StatusOr<DeviceFacts> facts_from_json(const Json& j);
absl::StatusOr<DeviceFacts> load_facts(const std::string& path);

}  // namespace lathe
