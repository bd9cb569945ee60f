// What the lanes of AMD's GPUs multiply without matrix instructions in the "skinny" family, one row for each
// type and target. Plain data, read by the candidate table and by the emitter.
#pragma once

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "core/problem.h"

namespace lathe {

struct LaneProduct {
  enum Kind {
    kDot,  // one instruction sums the products of all elements of a register
    kFma   // f32 FMAs; bf16 is widened by a shift and a mask
  };

  absl::string_view targets;  // prefix of the architecture's name
  DType type;
  Kind kind;
  // kDot: the LLVM intrinsic. Operands: two registers, a sum, whether it clamps. On a target that lacks the
  // intrinsic LLVM ends the process.
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

// Null if the architecture has none for the type. Only architectures on which the table was tested have any.
inline const LaneProduct* find_lane_product(absl::string_view arch, DType type) {
  for (absl::string_view known : {"gfx90a", "gfx942", "gfx950", "gfx103", "gfx110", "gfx115", "gfx120"})
    if (absl::StartsWith(arch, known) && !absl::StrContains(arch, "generic"))
      for (const LaneProduct& row : kLaneProducts)
        if (row.type == type && absl::StartsWith(arch, row.targets)) return &row;
  return nullptr;
}
// Whether one instruction does two f32 FMAs (v_pk_fma_f32).
inline bool packs_fmas(absl::string_view arch) { return absl::StartsWith(arch, "gfx9"); }

}  // namespace lathe
