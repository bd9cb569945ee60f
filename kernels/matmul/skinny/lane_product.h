// What lanes of AMD's GPUs multiply and add without matrix instructions, one row a type and target: the
// "skinny" family's products. Plain data, read by the candidates' table and by the emitter.
#pragma once

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "core/problem.h"

namespace lathe {

struct LaneProduct {
  enum Kind {
    kDot,  // an instruction sums the products of all elements of a register
    kFma   // f32, to which bf16 is widened by a shift and a mask
  };

  absl::string_view targets;  // prefix of the architectures' names
  DType type;
  Kind kind;
  // LLVM's intrinsic of kDot: two registers, a sum, whether it clamps. Where a target lacks one LLVM does not
  // refuse the kernel, it ends the process.
  const char* name;
};

inline constexpr LaneProduct kLaneProducts[] = {
    {"gfx", DType::kF16, LaneProduct::kDot, "llvm.amdgcn.fdot2"},
    {"gfx950", DType::kBF16, LaneProduct::kDot, "llvm.amdgcn.fdot2.f32.bf16"},
    {"gfx11", DType::kBF16, LaneProduct::kDot, "llvm.amdgcn.fdot2.f32.bf16"},
    {"gfx12", DType::kBF16, LaneProduct::kDot, "llvm.amdgcn.fdot2.f32.bf16"},
    {"gfx", DType::kBF16, LaneProduct::kFma, ""},
    {"gfx", DType::kI8, LaneProduct::kDot, "llvm.amdgcn.sdot4"},
    {"gfx", DType::kF32, LaneProduct::kFma, ""},
};

// Null if the architecture has none for the type. Those that have are what the table was tried on.
inline const LaneProduct* find_lane_product(absl::string_view arch, DType type) {
  for (absl::string_view known : {"gfx90a", "gfx942", "gfx950", "gfx103", "gfx110", "gfx115", "gfx120"})
    if (absl::StartsWith(arch, known) && !absl::StrContains(arch, "generic"))
      for (const LaneProduct& row : kLaneProducts)
        if (row.type == type && absl::StartsWith(arch, row.targets)) return &row;
  return nullptr;
}
// Whether two FMAs of f32 are one instruction (v_pk_fma_f32).
inline bool packs_fmas(absl::string_view arch) { return absl::StartsWith(arch, "gfx9"); }

}  // namespace lathe
