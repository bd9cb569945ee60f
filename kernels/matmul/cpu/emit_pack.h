// Copies an operand's elements, as words, into a CPU kernel's panels.
#pragma once

#include "kernels/matmul/cpu/emit.h"

namespace lathe::emit {

// One block of an operand to pack: `lines` lines, each contiguous in memory along the other dimension.
struct PanelSource {
  const CpuWords& words;
  View view;
  Value first_line;  // index in the view
  Value lines_left;  // lines from there on; past the end the last one is read again
  Value start;       // first element of every line
  Value length;      // elements of every line; zeros are packed up to a whole vector
  bool ragged;       // `length` may be no multiple of lanes
  bool shifts;       // words are shifted (CpuWords::shifted)

  Value shifted(Value x) const { return shifts ? words.shifted(x) : x; }
};

// Packs lines along K: memory[base + word * pitch + line] for `lines` lines, in blocks of lanes x lanes
// that are transposed in registers. Prefetches the next panel's lines into L2, or without a next panel the
// same lines further on: hardware prefetchers cannot follow so many lines, each on a page of its own.
void pack_transposed(Emit& e, const PanelSource& s, int64_t lines, int64_t pitch, Value memory, Value base);

// Copies lines along K: memory[base + line * pitch + word] for `lines` lines.
void pack_copied(Emit& e, const PanelSource& s, int64_t lines, int64_t pitch, Value memory, Value base);

// Packs lines across K, all of `depth`: memory[base + word * pitch + position]. Words past the end of K are
// 0. `fetches`: prefetches the lines that come next into L2, at the end those of the next panel.
void pack_across(Emit& e, const PanelSource& s, Value depth, int64_t pitch, Value memory, Value base,
                 bool fetches);

// Panels of B that were packed in advance (core/packed.h): the first column of the last panel; where K
// block k0 of the panel with the first column `column` begins.
Value last_panel(Emit& e, const CpuTile& t);
Value panel_at(Emit& e, const CpuTile& t, Value column, Value k0);
// Converts all columns of the task, packed in advance, to panels of f32, a K block deep: packing[column / n
// * n * tile_k + k * n + column % n], where n is the register tile's columns. Prefetches the next columns
// into L2.
void pack_panels(Emit& e, const CpuTile& t, Value k0, Value depth);

// Packs A stored K by M: memory[base + row * pitch + word]. Its lines run along M. Rows past `rows` are
// zero, and so are the elements of the last word past `depth`; whole words past it are undefined.
void pack_a_transposed(Emit& e, const CpuTile& t, Value i, Value rows, Value k0, Value depth, int64_t pitch,
                       Value base);

}  // namespace lathe::emit
