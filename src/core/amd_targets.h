// The AMD GPUs that Lathe supports, by their LLVM names, and LLVM's generic targets, whose code runs on
// several GPUs.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace lathe {

// One row per supported GPU.
struct AmdGpu {
  absl::string_view name;     // "gfx942"
  absl::string_view generic;  // the generic target that includes this GPU; empty if there is none
  // The default modes, which a name without a suffix implies. Has the form of Target::features:
  // "+sramecc,-xnack".
  absl::string_view features;
};
absl::Span<const AmdGpu> amd_gpus();

// Returns null if no GPU has this name. Generic targets are not GPUs.
const AmdGpu* find_amd_gpu(absl::string_view name);
// True for generic targets such as "gfx11-generic".
bool is_amd_generic(absl::string_view arch);
// The GPU whose instruction set code for `arch` may use. For a generic target this is its oldest member.
absl::string_view amd_baseline(absl::string_view arch);

}  // namespace lathe
