// The shape of a "tcgen05" kernel: what a stage holds, and how shared and tensor memory are laid out. Pure arithmetic,
// used by the candidate table and by the emitter.
//
// The instruction multiplies 128 rows of A by tile_n columns of B, 32 bytes of K at a time, with a scale for each block
// of both. A stage has rows of 128 bytes of A and B with the 128-byte swizzle, and their scales in tiles of 128 lines
// by 4 blocks (LATHE_SCALES_TILED).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/block_scaled.h"

namespace lathe {

struct Tcgen05Shape {
  Tcgen05Shape(DType a_blocks, DType b_blocks, int64_t columns, int64_t stage_count, bool lists = false)
      : a(a_blocks), b(b_blocks), tile_n(columns), stages(stage_count), lists_rows(lists) {}

  DType a, b;
  int64_t tile_n, stages;
  bool lists_rows;  // a grouped product's rows of A, which threads copy, and of D are listed

  // Warps: four gather scales and store D, one copies A and B, one multiplies.
  static constexpr int64_t kScaleWarps = 4, kCopyWarp = 4, kProductWarp = 5, kThreads = 192;
  static constexpr int64_t kTileM = 128, kRow = 128, kSteps = 4;  // instructions in a stage
  static constexpr int64_t kTileLines = 128, kTileScales = 4, kTileBytes = kTileLines * kTileScales;

  // Warps that gather, in turns. With more of them than stages, the parity of "empty" could be that of
  // the phase before the last.
  int64_t gathering_warps() const { return std::min(kScaleWarps, stages); }

  // Why no instruction multiplies the operands, "" if one does.
  static std::string refusal(DType a, DType b);
  static bool is_f8_blocks(DType t) { return t == DType::kMXF8E4M3 || t == DType::kMXF8E5M2; }
  std::string defect() const;

  // B in fp4 by A in fp8: in shared memory 16 elements take 16 bytes, whose second half is not used. Threads copy B,
  // because TMA's type for this needs rows of whole 128 elements aligned to 32 bytes.
  bool unpacks_b() const { return is_f8_blocks(a) && b == DType::kMXF4E2M1; }
  // Whether the warps that gather scales copy elements too.
  bool copies_elements() const { return lists_rows || unpacks_b(); }

  int64_t elements_of_row() const { return kRow * block_elements(a) / static_cast<int64_t>(size_of(a)); }
  int64_t tile_k() const { return elements_of_row(); }
  int64_t scaled() const { return elements_of_scale(a); }
  // Tiles of scales of 128 lines in a stage: each has 4 blocks of K.
  int64_t tiles_of_k() const { return tile_k() / scaled() / kTileScales; }
  // Whether 4 blocks may have one stored scale (ScaledFormat).
  bool may_share_scales() const { return a == DType::kMXF8E4M3 && b == DType::kMXF8E4M3; }
  int64_t scales_of_step() const { return tile_k() / kSteps / scaled(); }
  int64_t tiles_of_n() const { return (tile_n + kTileLines - 1) / kTileLines; }

  // Shared memory: the stages' A and B, their scales (A's tiles, then B's), the patches of the epilogue, the mbarriers
  // "full" and "empty" of each stage and one for the end of all products, and the address of the tensor memory.
  int64_t a_bytes() const { return kTileM * kRow; }
  int64_t b_bytes() const { return tile_n * kRow; }
  int64_t stage_bytes() const { return a_bytes() + b_bytes(); }
  int64_t copied_bytes() const {  // by TMA
    return (lists_rows ? 0 : a_bytes()) + (unpacks_b() ? 0 : b_bytes());
  }
  int64_t scale_bytes() const { return tiles_of_k() * (1 + tiles_of_n()) * kTileBytes; }
  int64_t scales_at() const { return stages * stage_bytes(); }
  int64_t patches_at() const { return scales_at() + stages * scale_bytes(); }
  int64_t barriers_at() const { return patches_at() + kScaleWarps * kPatchBytes; }
  int64_t done_at() const { return barriers_at() + 16 * stages; }
  int64_t address_at() const { return done_at() + 8; }
  int64_t shared_bytes() const { return address_at() + 8; }
  // Static shared memory, rounded up to the alignment of the dynamic part: the lists of rows.
  int64_t static_bytes() const {
    constexpr int64_t kLists = 4, kAlignment = 1 << 10;
    return lists_rows ? 8 * kLists * kTileM + kAlignment : kAlignment;
  }
  // A warp passes 32 rows by 32 columns at a time through shared memory, so that it can store D row by row. The pitch
  // avoids bank conflicts.
  static constexpr int64_t kPatch = 32, kPatchPitch = 36, kPatchBytes = 4 * kPatch * kPatchPitch;

  // Tensor memory, in columns: D, the scales of A, the scales of B.
  static constexpr int64_t kAllColumns = 512, kTileColumns = kTileLines / 32;
  int64_t scales_a_column() const { return tile_n; }
  int64_t scales_b_column() const { return tile_n + kTileColumns * tiles_of_k(); }
  int64_t columns() const {
    const int64_t used = tile_n + kTileColumns * tiles_of_k() * (1 + tiles_of_n());
    int64_t allocated = 32;
    while (allocated < used) allocated *= 2;
    return allocated;
  }

  // Workgroups on an SM. Limits of compute capability 10.0 (CUDA Programming Guide): shared memory, and what the system
  // reserves of it for each workgroup.
  int64_t resident() const {
    constexpr int64_t kUnitShared = 228 << 10, kReserved = 1 << 10;
    return std::clamp<int64_t>(kUnitShared / (shared_bytes() + static_bytes() + kReserved), 1,
                               kAllColumns / columns());
  }
};

inline std::string Tcgen05Shape::refusal(DType a, DType b) {
  const bool same = a == b && (a == DType::kMXF4E2M1 || a == DType::kNVF4E2M1);
  if (same || (is_f8_blocks(a) && (is_f8_blocks(b) || b == DType::kMXF4E2M1))) return "";
  return absl::StrCat("tcgen05 does not multiply ", name_of(a), " by ", name_of(b), " with scales");
}

inline std::string Tcgen05Shape::defect() const {
  if (tile_n < 16 || tile_n > 256 || tile_n % 16 != 0)
    return absl::StrCat("no tcgen05 instruction has the width ", tile_n);
  if (stages < 2) return absl::StrCat("stages ", stages, " < 2");
  if (columns() > kAllColumns) return absl::StrCat("tensor memory columns ", columns(), " > ", kAllColumns);
  return "";
}

}  // namespace lathe
