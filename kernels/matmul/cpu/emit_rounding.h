// Rows of A rounded to bytes block by block, as ggml's CPU backend rounds them (its Q8_0, Q8_1 and Q8_K).
#pragma once

#include "kernels/matmul/cpu/emit.h"
#include "kernels/matmul/cpu/emit_byte_blocks.h"

namespace lathe::emit {

// The fields of each row in the packing memory, in words: a scale per group of 32 elements; then per scale of the
// weights the first sum (what A's bytes times the weights' offset add); then what multiplies the minima.
struct RoundedRows {
  enum class Bytes : int8_t {
    kByRow,    // the bytes of a row begin its fields, group after group
    kInTiles,  // before all fields, in the order of AMX tiles: 16 rows by `tile_groups` groups
    kSideBySide,  // before all fields: a group of each of `tile_rows` rows, which are one stream for the prefetchers
    kInPairs  // before all fields: 8 bytes of a row, then those of the next row (AArch64's smmla)
  };
  RoundedRows(const ByteFormat& f, int64_t rows, int64_t depth, int64_t tile_lanes, Bytes order,
              int64_t tile_groups = 1, int64_t tile_rows = kAmxRows);

  static constexpr int64_t kAmxRows = 16;
  Bytes order;
  // Of the vectors that round A: at least the groups of a block of 256, so a NEON kernel uses two registers for each.
  int64_t lanes;
  int64_t tile_groups, tile_rows, groups;
  int64_t tiles;                   // words before the fields of row 0
  int64_t scales, firsts, minima;  // from the first field of a row on
  int64_t pitch;                   // from row to row
  int64_t words;                   // of everything

  // The first field of row i.
  Value row(Emit& e, Value i) const { return e.add(e.mul(i, pitch), tiles); }
  // The first bytes of a group of row i.
  Value bytes(Emit& e, Value i, Value group) const;
  static constexpr int64_t kPairStep = 4;  // kInPairs: words from 8 bytes of a row to its next 8
};

// Rounds all rows of A. The rounded rows begin at word `first` of the packing memory.
void round_rows(Emit& e, const CpuTile& t, const ByteFormat& f, const RoundedRows& rows, int64_t first);

}  // namespace lathe::emit
