// The loops of every CPU matmul kernel around its micro-kernel, from the outside in: groups of columns, K blocks, and
// register tiles by rows or by columns first. README.md says what each kernel does at each level.
#pragma once

#include "kernels/matmul/cpu/emit.h"

namespace lathe::emit {

// A K block of a group of columns. Columns of register tiles count from the group's first one.
struct NestBlock {
  Value column0, columns;  // the group's first column, and how many it has
  Value k0, depth;         // of the K block
};
// What is copied beside the FMAs (`copy_ahead`): the next rows, into a panel of their own.
struct NextPanel {
  Value panel;  // offset in the packing memory
  Value row;    // the first row to copy
};
// The rows of a register tile.
struct NestRows {
  Value i, at_row;                  // the first one, and its row of the accumulators
  int64_t count;                    // as many as the micro-kernel multiplies
  Value panel;                      // offset in the packing memory, if they are packed
  bool in_place;                    // they are read where they are
  const NextPanel* next = nullptr;  // null: nothing is copied meanwhile
};
// The columns of a register tile, in vectors. The last vector has `last_lanes` lanes, and is masked to `left` columns
// if given.
struct NestColumns {
  Value j;
  int64_t vectors, last_lanes;
  Value left;
  bool first = false;  // whether they are certainly the group's first columns
};

// How a kernel passes over the columns of a group.
enum class ColumnPasses {
  kWhole,       // register tiles, the last one padded
  kFirstApart,  // the same; the first pass has code of its own, since it prefetches or copies more
  kNarrowLast,  // as kFirstApart; the last tile has only as many vectors as columns are left (`narrow_passes`)
  kRest,        // register tiles, then what is left, masked
};

// What a kernel does at each level. A null function does nothing.
struct CpuNest {
  bool rows_first = false;    // else all rows of the task for each register tile's columns
  int64_t group_columns = 0;  // 0: all columns are one group
  int64_t pass_columns = 0;   // columns of a pass
  ColumnPasses passes = ColumnPasses::kWhole;
  // Rows that do not fill a register tile are packed although the others are read in place.
  bool packs_last_rows = false;
  int64_t panel = 0, panel_words = 0;  // where rows are packed, and how long that is

  std::function<void(const NestBlock&)> begin_group, end_group;  // k0 and depth are null
  std::function<void(const NestBlock&)> begin_block;             // packs columns, for one
  std::function<void(const NestBlock&, Value i, Value panel)> pack_rows;
  std::function<void(const NestBlock&, const NestRows&)> begin_rows;                // if rows come first
  std::function<void(const NestBlock&, Value j)> begin_columns;                     // if columns come first
  std::function<void(const NestBlock&, const NestRows&, const NestColumns&)> tile;  // the micro-kernel
};
void emit_nest(Emit& e, const CpuTile& t, const CpuNest& nest);

}  // namespace lathe::emit
