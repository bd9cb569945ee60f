// What a "skinny" plan fixes of its kernel: what a warp works at, how shared memory is laid out. Pure
// arithmetic, read by the candidates' table and by the emitter.
//
// A workgroup owns tile_n columns of D and the K of its split (at most tile_k), and all rows of A. It stages
// its part of A in shared memory once, then works on register_n columns (a group) after another. Its warps
// lie warps_n along N by warps_k along K and read weights from global memory straight to registers, a unit of
// 2 KB (16 registers of a lane) at a time with unroll_k units in flight; the loads run ahead across groups.
// The sums of the warps along K meet in shared memory, and the whole tile's sums stay there until the end.
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
};

struct SkinnyShape {
  explicit SkinnyShape(const SkinnyInput& in);

  // Why no kernel has this shape, "" if one has.
  std::string defect() const;

  SkinnyInput in;
  int64_t unit = 0;          // elements of K of a unit
  int64_t warp_columns = 0;  // columns of D of a unit
  int64_t segment = 0;       // bytes of a row of A that lie together in shared memory
  int64_t warps_n = 0, warps_k = 0;
  int64_t tail = 0;                 // elements behind the last whole 16 bytes of a row of weights
  int64_t padded_rows = 0;          // rows of a group's sums: whole blocks of the instruction's
  int64_t groups = 0, columns = 0;  // of the tile; columns of all its groups
  // Shared memory: A's units with one of zeros behind them, the weights' tails, two buffers of the warps'
  // sums (one warp along K needs none), the tile's sums.
  int64_t unit_bytes = 0;                        // of staged A
  int64_t partial_pitch = 0, partial_bytes = 0;  // f32 from row to row of a warp's sums; bytes of a buffer
  int64_t tails_at = 0, partials_at = 0, sums_at = 0, shared_bytes = 0;

  // K of every split but the last is a multiple of this, so that rows of A and of weights still start at 16
  // bytes.
  static constexpr int64_t kSplitMultiple = 64;
  static constexpr int64_t kMaxRows = 16, kWarp = 32, kVector = 16, kUnitBytes = 2048, kUnitRegisters = 16;
  // Of a thread, which the kernel keeps to so that a compute unit's 64 K serve 512 threads.
  static constexpr int64_t kRegisters = 128, kUnitThreads = 512;
};

inline SkinnyShape::SkinnyShape(const SkinnyInput& input) : in(input) {
  constexpr int64_t kLine = 128;
  const int64_t per_vector = kVector / in.element_bytes;
  if (in.k_major) {
    // Matrix instructions: a line of each of 16 columns. FMAs: the warp along four columns.
    warp_columns = in.matrix ? 16 : 4;
    segment = in.matrix ? kLine / 2 : kWarp * kVector;
  } else {
    // Matrix instructions: a line of each of 16 rows. FMAs: the warp along four rows.
    warp_columns = in.matrix ? kLine / in.element_bytes : kWarp * per_vector;
    segment = in.matrix ? 16 * in.element_bytes : kVector;
  }
  unit = kUnitBytes / in.element_bytes / warp_columns;
  warps_n = in.group / warp_columns;
  warps_k = warps_n > 0 ? in.threads / kWarp / warps_n : 0;
  tail = (in.k_major ? in.k : in.n) % per_vector;
  padded_rows = in.matrix ? (in.rows + 7) / 8 * 8 : in.rows;
  groups = in.group > 0 ? (in.tile_n + in.group - 1) / in.group : 0;
  columns = groups * in.group;
  unit_bytes = in.rows * unit * in.element_bytes;
  tails_at = ((in.tile_k + unit - 1) / unit + 1) * unit_bytes;
  tails_at = (tails_at + kVector - 1) / kVector * kVector;
  partials_at = tails_at + (tail == 0 ? 0 : in.k_major ? kVector * columns : kVector);
  // Rows of a fragment's lanes are then apart by 8 of the 32 banks, or 4.
  partial_pitch = in.group + 4;
  partial_bytes = warps_k > 1 ? 4 * warps_k * padded_rows * partial_pitch : 0;
  sums_at = partials_at + 2 * partial_bytes;
  shared_bytes = sums_at + 4 * in.rows * columns;
}

inline std::string SkinnyShape::defect() const {
  if (in.rows < 1 || in.rows > kMaxRows) return absl::StrCat("M ", in.rows, " > ", kMaxRows);
  // Pairs of rows are sorted by 16-bit elements; FMAs are of f32.
  const bool exists = in.matrix ? in.element_bytes == 2 || in.k_major : in.element_bytes == 4;
  if (!exists)
    return absl::StrCat("no ", in.matrix ? "matrix instructions" : "FMAs", " on ", in.element_bytes,
                        "-byte weights contiguous along ", in.k_major ? "K" : "N");
  if (warps_n < 1 || in.group % warp_columns != 0 || warps_k < 1 || warps_n * warps_k * kWarp != in.threads)
    return absl::StrCat("groups of ", in.group, " columns are no share of ", in.threads / kWarp, " warps of ",
                        warp_columns);
  if (in.tile_n < 1 || in.tile_k < 1 || in.unroll_k < 1) return "an empty tile";
  return "";
}

}  // namespace lathe
