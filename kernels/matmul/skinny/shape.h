// The shape of a "skinny" kernel: what each warp computes and how shared memory is laid out. Pure arithmetic,
// used by the candidate table and by the emitter.
//
// A workgroup computes tile_n columns of D for all rows of A, over the K of its split (at most tile_k). It
// goes through the columns in groups. Its warps form a grid of warps_n along N by warps_k along K. They load
// weights from global memory straight to registers, in units of 16 registers per lane (2 KB per warp of 32, 4 KB
// per wave of 64), with unroll_k units in flight; the loads run ahead across groups. The sums of the warps along K
// are added through shared memory, and the tile's sums stay there until the end.
//
// Weights in quantised blocks are decoded to f32 before they are multiplied by FMAs, so a unit has four elements of each of
// four columns for a lane, as f32 weights have (emit_blocks.cc). Their element_bytes are those of f32.
//
// CUDA stages its part of A in shared memory once. AMD has less shared memory, so a lane loads its part of A
// together with the weights. Therefore K is not limited there, and the first load waits for nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"

namespace lathe {

struct SkinnyInput {
  int64_t rows = 0;                           // rows of A
  int64_t k = 0, n = 0;                       // of the whole product
  int64_t tile_n = 0, tile_k = 0, group = 0;  // SkinnyConfig: chunk_k, columns
  int64_t unroll_k = 0, threads = 0;          // unroll_k: SkinnyConfig::loads
  int64_t element_bytes = 2;
  bool k_major = true;  // weights are contiguous along K, else along N
  bool blocks = false;  // weights are in quantised blocks
  bool matrix = true;   // matrix instructions, with D's columns along their rows; else FMAs
  // AMD: lanes of a wave, and the groups of lanes over which matrix instructions spread K.
  bool amd = false;
  int64_t wave = 32, lane_groups = 4;
};

struct SkinnyShape {
  explicit SkinnyShape(const SkinnyInput& in);

  // Why this shape is not supported, "" if it is.
  std::string defect() const;

  int64_t per_vector() const { return kVector / in.element_bytes; }  // elements in 16 bytes
  // Elements of K that the loads in flight of all warps cover.
  int64_t round() const { return unit * warps_k * in.unroll_k; }

  SkinnyInput in;
  int64_t unit = 0;          // elements of K in a unit
  int64_t warp_columns = 0;  // columns of D in a unit
  int64_t lanes_k = 0;       // AMD without matrix instructions: groups of lanes over which K is spread
  int64_t segment = 0;       // CUDA: bytes of a row of A that are contiguous in shared memory
  int64_t warps_n = 0, warps_k = 0;
  int64_t tail = 0;                 // elements after the last whole 16 bytes of a row of weights
  int64_t padded_rows = 0;          // rows of a group's sums, rounded up to the instruction's blocks
  int64_t groups = 0, columns = 0;  // groups of the tile; columns of all of them
  // Shared memory: A's units and one unit of zeros, the weights' tails, two buffers for the warps' sums (none
  // with one warp along K, one on AMD with a single group), the tile's sums.
  int64_t unit_bytes = 0;                        // of staged A; AMD stages nothing
  int64_t partial_pitch = 0, partial_bytes = 0;  // f32 between rows of a warp's sums; bytes of a buffer
  int64_t tails_at = 0, partials_at = 0, sums_at = 0, shared_bytes = 0;

  // K of every split but the last is a multiple of this, so that rows of A and of weights still start at
  // multiples of 16 bytes, and blocks are whole.
  static constexpr int64_t split_multiple(DType weights) {
    return std::max(kSplitMultiple, block_elements(weights));
  }
  static constexpr int64_t kSplitMultiple = 64;
  static constexpr int64_t kMaxRows = 16, kVector = 16, kUnitVectors = 4, kUnitRegisters = 16;
  static constexpr int64_t kLine = 128;  // bytes
  // Registers of a thread. The kernel keeps to them so that an SM's 64 K registers serve 512 threads.
  static constexpr int64_t kRegisters = 128, kUnitThreads = 512;

 private:
  void place_cuda();
  void place_amd();
  void stage();  // A and the weights' tails
};

inline SkinnyShape::SkinnyShape(const SkinnyInput& input) : in(input) {
  if (in.amd)
    place_amd();
  else
    place_cuda();
  warps_n = in.group / warp_columns;
  warps_k = warps_n > 0 ? in.threads / in.wave / warps_n : 0;
  groups = in.group > 0 ? (in.tile_n + in.group - 1) / in.group : 0;
  columns = groups * in.group;
  if (!in.amd) stage();
  // 4 columns of padding, so that the rows that a fragment's lanes store together start 8 (or 4) of the 32 banks apart.
  partial_pitch = in.group + 4;
  partial_bytes = warps_k > 1 ? 4 * warps_k * padded_rows * partial_pitch : 0;
  sums_at = partials_at + (in.amd && groups == 1 ? 1 : 2) * partial_bytes;
  shared_bytes = sums_at + 4 * in.rows * columns;
}

inline void SkinnyShape::place_cuda() {
  if (in.k_major) {
    // Matrix instructions: a line of each of 16 columns. FMAs: the warp along each of four columns.
    warp_columns = in.matrix ? 16 : 4;
    segment = in.matrix ? kLine / 2 : in.wave * kVector;
  } else {
    // Matrix instructions: a line of each of 16 rows. FMAs: the warp along each of four rows.
    warp_columns = in.matrix ? kLine / in.element_bytes : in.wave * per_vector();
    segment = in.matrix ? 16 * in.element_bytes : kVector;
  }
  unit = in.wave * kUnitVectors * per_vector() / warp_columns;
  padded_rows = in.matrix ? (in.rows + 7) / 8 * 8 : in.rows;
}

// A vector that extends beyond K or N is loaded whole: an aligned vector does not cross a page.
inline void SkinnyShape::place_amd() {
  if (in.matrix) {
    // Each lane has one of 16 columns. The lane_groups lanes of a column take its vectors along K in turn.
    warp_columns = 16, unit = in.lane_groups * kUnitVectors * per_vector();
  } else {
    // N by K: the wave lies along each of four columns. K by N: eight lanes lie along a line of a row, and
    // each such eight take four rows.
    warp_columns = in.k_major ? kUnitVectors : kLine / in.element_bytes;
    lanes_k = in.k_major ? in.wave : in.wave / (kLine / kVector);
    unit = lanes_k * (in.k_major ? per_vector() : kUnitVectors);
  }
  padded_rows = in.rows;
}

inline void SkinnyShape::stage() {
  tail = (in.k_major ? in.k : in.n) % per_vector();
  unit_bytes = in.rows * unit * in.element_bytes;
  tails_at = ((in.tile_k + unit - 1) / unit + 1) * unit_bytes;
  tails_at = (tails_at + kVector - 1) / kVector * kVector;
  partials_at = tails_at + (tail == 0 ? 0 : in.k_major ? kVector * columns : kVector);
}

inline std::string SkinnyShape::defect() const {
  if (in.rows < 1 || in.rows > kMaxRows) return absl::StrCat("M ", in.rows, " > ", kMaxRows);
  // CUDA: the transposition of row pairs needs 16-bit elements, and FMAs need f32.
  const bool exists =
      in.matrix ? in.k_major || (!in.amd && in.element_bytes == 2) : in.amd || in.element_bytes == 4;
  if (!exists)
    return absl::StrCat("no ", in.matrix ? "matrix instructions" : "FMAs", " on ", in.element_bytes,
                        "-byte weights contiguous along ", in.k_major ? "K" : "N");
  if (warps_n < 1 || in.group % warp_columns != 0 || warps_k < 1 || warps_n * warps_k * in.wave != in.threads)
    return absl::StrCat("groups of ", in.group, " columns cannot be shared by ", in.threads / in.wave,
                        " warps of ", warp_columns);
  if (in.tile_n < 1 || in.tile_k < 1 || in.unroll_k < 1) return "the tile is empty";
  return "";
}

}  // namespace lathe
