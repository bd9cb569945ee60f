// AMD's GPUs by LLVM's names, and the generic targets whose code several of them run.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace lathe {

// One row a GPU that kernels are made for.
struct AmdGpu {
  absl::string_view name;     // "gfx942"
  absl::string_view generic;  // the generic target that it is a member of; "" where there is none
  // Its modes as an unsuffixed name means them, a Target's features: "+sramecc,-xnack".
  absl::string_view features;
};
absl::Span<const AmdGpu> amd_gpus();

// Null for a name that is none of a GPU's, a generic target's among them.
const AmdGpu* find_amd_gpu(absl::string_view name);
// Of "gfx11-generic" and its like.
bool is_amd_generic(absl::string_view arch);
// The GPU whose instructions code for `arch` may use: of a generic target its oldest member.
absl::string_view amd_baseline(absl::string_view arch);

}  // namespace lathe
