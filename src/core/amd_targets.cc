#include "core/amd_targets.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace lathe {
namespace {

constexpr absl::string_view kBoth = "+sramecc,-xnack", kXnack = "-xnack";

// From LLVM's AMDGPU usage guide, "Processors" and "Generic processors". The oldest member of each generic
// target must come first (see amd_baseline). The drivers' defaults are sramecc on and xnack off.
constexpr AmdGpu kGpus[] = {
    {"gfx900", "gfx9-generic", kXnack},
    {"gfx902", "gfx9-generic", kXnack},
    {"gfx904", "gfx9-generic", kXnack},
    {"gfx906", "gfx9-generic", kBoth},
    {"gfx909", "gfx9-generic", kXnack},
    {"gfx90c", "gfx9-generic", kXnack},
    {"gfx908", "", kBoth},
    {"gfx90a", "", kBoth},
    {"gfx942", "gfx9-4-generic", kBoth},
    {"gfx950", "gfx9-4-generic", kBoth},
    {"gfx1030", "gfx10-3-generic", ""},
    {"gfx1031", "gfx10-3-generic", ""},
    {"gfx1032", "gfx10-3-generic", ""},
    {"gfx1033", "gfx10-3-generic", ""},
    {"gfx1034", "gfx10-3-generic", ""},
    {"gfx1035", "gfx10-3-generic", ""},
    {"gfx1036", "gfx10-3-generic", ""},
    {"gfx1100", "gfx11-generic", ""},
    {"gfx1101", "gfx11-generic", ""},
    {"gfx1102", "gfx11-generic", ""},
    {"gfx1103", "gfx11-generic", ""},
    {"gfx1150", "gfx11-generic", ""},
    {"gfx1151", "gfx11-generic", ""},
    {"gfx1152", "gfx11-generic", ""},
    {"gfx1153", "gfx11-generic", ""},
    {"gfx1200", "gfx12-generic", ""},
    {"gfx1201", "gfx12-generic", ""},
};

}  // namespace

absl::Span<const AmdGpu> amd_gpus() { return kGpus; }

const AmdGpu* find_amd_gpu(absl::string_view name) {
  const auto* found =
      std::find_if(std::begin(kGpus), std::end(kGpus), [&](const AmdGpu& gpu) { return gpu.name == name; });
  return found == std::end(kGpus) ? nullptr : found;
}

bool is_amd_generic(absl::string_view arch) { return absl::EndsWith(arch, "-generic"); }

absl::string_view amd_baseline(absl::string_view arch) {
  if (is_amd_generic(arch))
    for (const AmdGpu& gpu : kGpus)
      if (gpu.generic == arch) return gpu.name;
  return arch;
}

}  // namespace lathe
