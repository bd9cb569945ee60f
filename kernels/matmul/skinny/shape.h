// What a "skinny" plan fixes of its kernel: what a warp works at, how shared memory is laid out. Pure
// arithmetic, read by the candidates' table and by the emitter.
//
// A workgroup owns tile_n columns of D and the K of its split (at most tile_k), and all rows of A. It works
// on register_n columns (a group) after another. Its warps lie warps_n along N by warps_k along K and read
// weights from global memory straight to registers, a unit of 16 registers of a lane (2 KB, of a wave of 64
// 4 KB) at a time with unroll_k units in flight; the loads run ahead across groups. The sums of the warps
// along K meet in shared memory, and the whole tile's sums stay there until the end.
//
// CUDA stages its part of A in shared memory once. On AMD, where that holds less, a lane reads its part of A
// beside the weights, as far ahead; so there is no limit to K, and nothing to wait for before the first load.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace lathe {

struct SkinnyInput {
  int64_t rows = 0;                           // of A
  int64_t k = 0, n = 0;                       // of the whole product
  int64_t tile_n = 0, tile_k = 0, group = 0;  // group: register_n
  int64_t unroll_k = 0, threads = 0;
  int64_t element_bytes = 2;
  bool k_major = true;  // weights: contiguous along K, else along N
  bool matrix = true;   // swap: matrix instructions with D's columns along their rows; else FMAs
  // AMD: the wave, and over how many groups of lanes matrix instructions spread K.
  bool amd = false;
  int64_t wave = 32, lane_groups = 4;
};

struct SkinnyShape {
  explicit SkinnyShape(const SkinnyInput& in);

  // Why no kernel has this shape, "" if one has.
  std::string defect() const;

  int64_t per_vector() const { return kVector / in.element_bytes; }  // elements
  // Elements of K that all warps' loads in flight are of.
  int64_t round() const { return unit * warps_k * in.unroll_k; }

  SkinnyInput in;
  int64_t unit = 0;          // elements of K of a unit
  int64_t warp_columns = 0;  // columns of D of a unit
  int64_t lanes_k = 0;       // AMD without matrix instructions: groups of lanes that K is spread over
  int64_t segment = 0;       // CUDA: bytes of a row of A that lie together in shared memory
  int64_t warps_n = 0, warps_k = 0;
  int64_t tail = 0;                 // elements behind the last whole 16 bytes of a row of weights
  int64_t padded_rows = 0;          // rows of a group's sums: whole blocks of the instruction's
  int64_t groups = 0, columns = 0;  // of the tile; columns of all its groups
  // Shared memory: A's units with one of zeros behind them, the weights' tails, two buffers of the warps'
  // sums (one warp along K needs none, AMD's one group one), the tile's sums.
  int64_t unit_bytes = 0;                        // of staged A; AMD stages nothing
  int64_t partial_pitch = 0, partial_bytes = 0;  // f32 from row to row of a warp's sums; bytes of a buffer
  int64_t tails_at = 0, partials_at = 0, sums_at = 0, shared_bytes = 0;

  // K of every split but the last is a multiple of this, so that rows of A and of weights still start at 16
  // bytes.
  static constexpr int64_t kSplitMultiple = 64;
  static constexpr int64_t kMaxRows = 16, kVector = 16, kUnitVectors = 4, kUnitRegisters = 16;
  static constexpr int64_t kLine = 128;  // bytes
  // Of a thread, which the kernel keeps to so that a compute unit's 64 K serve 512 threads.
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
  // Rows of a fragment's lanes are then apart by 8 of the 32 banks, or 4.
  partial_pitch = in.group + 4;
  partial_bytes = warps_k > 1 ? 4 * warps_k * padded_rows * partial_pitch : 0;
  sums_at = partials_at + (in.amd && groups == 1 ? 1 : 2) * partial_bytes;
  shared_bytes = sums_at + 4 * in.rows * columns;
}

inline void SkinnyShape::place_cuda() {
  if (in.k_major) {
    // Matrix instructions: a line of each of 16 columns. FMAs: the warp along four columns.
    warp_columns = in.matrix ? 16 : 4;
    segment = in.matrix ? kLine / 2 : in.wave * kVector;
  } else {
    // Matrix instructions: a line of each of 16 rows. FMAs: the warp along four rows.
    warp_columns = in.matrix ? kLine / in.element_bytes : in.wave * per_vector();
    segment = in.matrix ? 16 * in.element_bytes : kVector;
  }
  unit = in.wave * kUnitVectors * per_vector() / warp_columns;
  padded_rows = in.matrix ? (in.rows + 7) / 8 * 8 : in.rows;
}

// Vectors that K or N ends in are loaded whole: one aligned to its size lies in a page that exists.
inline void SkinnyShape::place_amd() {
  if (in.matrix) {
    // Sixteen columns, a lane one of them, its vectors as many lanes along K apart as hold other K of it.
    warp_columns = 16, unit = in.lane_groups * kUnitVectors * per_vector();
  } else {
    // The wave along four columns; or eight lanes along a line of a row, and four rows of each eight.
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
  // CUDA: pairs of rows are sorted by 16-bit elements; FMAs are of f32.
  const bool exists =
      in.matrix ? in.k_major || (!in.amd && in.element_bytes == 2) : in.amd || in.element_bytes == 4;
  if (!exists)
    return absl::StrCat("no ", in.matrix ? "matrix instructions" : "FMAs", " on ", in.element_bytes,
                        "-byte weights contiguous along ", in.k_major ? "K" : "N");
  if (warps_n < 1 || in.group % warp_columns != 0 || warps_k < 1 || warps_n * warps_k * in.wave != in.threads)
    return absl::StrCat("groups of ", in.group, " columns are no share of ", in.threads / in.wave,
                        " warps of ", warp_columns);
  if (in.tile_n < 1 || in.tile_k < 1 || in.unroll_k < 1) return "an empty tile";
  return "";
}

}  // namespace lathe
