// Copies an operand's elements, as words, into a CPU kernel's panels.
#pragma once

#include "kernels/matmul/cpu/emit_nest.h"

namespace lathe::emit {

// The blocked nest's panels for a K block, in the packing memory. All of the task's columns: word `word` of a column is
// at first + j * panel_depth() + word * width + column - j, where j is the panel's first column. The rows of a register
// tile: a word is at panel + row * row_pitch() + word; the pitch keeps rows out of each other's cache sets.
struct ColumnPanels {
  int64_t width;
  int64_t first = 0;
  bool shifts = false;         // words are shifted (CpuWords::shifted)
  bool whole_vectors = false;  // words past the end of K are 0 up to a whole vector
  bool fetches = false;        // as pack_across
};
int64_t panel_depth(const CpuTile& t);
int64_t row_pitch(const CpuTile& t);
// `packed(j, base)` is called after each panel.
void pack_columns(Emit& e, const CpuTile& t, const NestBlock& block, const ColumnPanels& panels,
                  const std::function<void(Value j, Value base)>& packed = {});
void pack_rows(Emit& e, const CpuTile& t, const NestBlock& block, Value i, Value panel);

// A line along K, or a part of it, from element `from` on.
struct LineAlongK {
  const View& view;
  Value from, length;
  bool ragged = true;  // `length` may be no multiple of a vector's elements
};
// Copies the line's words to the packing memory from `to` on; the rest of the last vector is 0.
void copy_line(Emit& e, const CpuTile& t, const LineAlongK& line, Value to);

// Panels of B that were packed in advance (core/packed.h): the first column of the last panel; where K
// block k0 of the panel with the first column `column` begins.
Value last_panel(Emit& e, const CpuTile& t);
Value panel_at(Emit& e, const CpuTile& t, Value column, Value k0);
// Converts all columns of the task, packed in advance, to panels of f32, a K block deep: packing[column / n
// * n * tile_k + k * n + column % n], where n is the register tile's columns. Prefetches the next columns
// into L2.
void pack_panels(Emit& e, const CpuTile& t, Value k0, Value depth);

}  // namespace lathe::emit
