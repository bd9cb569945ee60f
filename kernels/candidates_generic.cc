#include "kernels/candidates_generic.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/dtype.h"
#include "core/amd_targets.h"

namespace lathe {
namespace {

// For any M >= 1: the tile wastes at most 15 of 16 rows in a decode step and still reuses operands in prefill.
// A deeper tile needs more registers for addresses, because strides are known only at launch: a tile_k of 32
// spills on sm_90a.
CompileConfig matmul_on_gpu() {
  SimtConfig c;
  c.tile_m = 16, c.tile_n = 64, c.tile_k = 16;
  c.register_m = 4, c.register_n = 2, c.threads = 128;
  return c;
}

CompileConfig matmul_on_cpu(const Target& target) {
  PanelConfig c;
  c.lanes = vector_lanes(target);
  c.tile_m = 64, c.tile_n = 64, c.tile_k = 256;
  // Four rows by two vectors of columns: eight accumulators and their operands fit 16 registers.
  c.register_m = 4, c.register_n = 2 * c.lanes;
  return c;
}

CompileConfig argmax_on_gpu() {
  GpuRowsConfig c;
  c.tile_m = 1, c.register_m = 1, c.threads = 256, c.loads = 4;
  c.register_n = 4 * c.loads;  // 16 bytes a load: four f32
  c.tile_n = c.threads * c.register_n;
  return c;
}

CompileConfig argmax_on_cpu(const Target& target) {
  CpuRowsConfig c;
  c.lanes = vector_lanes(target);
  c.tile_m = 1, c.register_m = 1;
  c.register_n = c.tile_n = 4 * c.lanes;
  return c;
}

// 75 for "sm_75", 90 for "sm_90a"; -1 for another name.
int compute_capability(absl::string_view arch) {
  int sm = -1;
  if (!absl::ConsumePrefix(&arch, "sm_")) return -1;
  while (!arch.empty() && (arch.back() < '0' || arch.back() > '9')) arch.remove_suffix(1);
  return absl::SimpleAtoi(arch, &sm) ? sm : -1;
}

bool runs_on(const Target& code, const Target& device) {
  if (code.backend != device.backend) return false;
  if (code.backend == Backend::kCuda) return compute_capability(code.arch) <= compute_capability(device.arch);
  if (code.backend == Backend::kRocm && is_amd_generic(code.arch)) {
    const AmdGpu* gpu = find_amd_gpu(device.arch);
    return gpu != nullptr && gpu->generic == code.arch;
  }
  if (code.arch != device.arch) return false;
  const std::vector<absl::string_view> features = absl::StrSplit(code.features, ',', absl::SkipEmpty());
  return std::all_of(features.begin(), features.end(),
                     [&](absl::string_view f) { return device.has(f.substr(1)); });
}

}  // namespace

CompileConfig plan_generic(const ProblemClass& c, const Target& target) {
  const bool cpu = target.backend == Backend::kCpu;
  if (has_row_lengths(c.op)) return cpu ? argmax_on_cpu(target) : argmax_on_gpu();
  CompileConfig config = cpu ? matmul_on_cpu(target) : matmul_on_gpu();
  // On ROCm merges are a separate step, as in the ranked plans.
  if (c.op == Op::kMatmulArgmax) config.set_split(target.backend == Backend::kCuda ? kMergeLast : kMergeStep);
  return config;
}

const std::vector<Target>& generic_targets() {
  static const std::vector<Target> kTargets = {
#if defined(__x86_64__)
    {Backend::kCpu, "x86-64", std::string(kX86Avx2)},
    {Backend::kCpu, "x86-64", ""},
#elif defined(__aarch64__)
    {Backend::kCpu, "aarch64", "+neon"},
#endif
    {Backend::kCuda, "sm_75", ""},
    // Without modes: the code runs with any xnack and sramecc setting of the device.
    {Backend::kRocm, "gfx9-generic", ""},
    {Backend::kRocm, "gfx9-4-generic", ""},
    {Backend::kRocm, "gfx10-3-generic", ""},
    {Backend::kRocm, "gfx11-generic", ""},
    {Backend::kRocm, "gfx12-generic", ""},
    // Members of no generic target.
    {Backend::kRocm, "gfx908", ""},
    {Backend::kRocm, "gfx90a", ""},
  };
  return kTargets;
}

std::vector<Target> generic_targets_for(const Target& device) {
  std::vector<Target> targets;
  for (const Target& t : generic_targets())
    if (runs_on(t, device)) targets.push_back(t);
  return targets;
}

}  // namespace lathe
