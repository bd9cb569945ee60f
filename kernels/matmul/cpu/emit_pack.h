// Copies an operand's elements into a CPU kernel's panels, as words.
#pragma once

#include "kernels/matmul/cpu/emit.h"

namespace lathe::emit {

// One block of an operand to pack: `lines` lines that are contiguous in memory along the other dimension.
struct PanelSource {
  const CpuWords& words;
  View view;
  Value first_line;  // in the view
  Value lines_left;  // lines that exist from there; those past the last read the last one again
  Value start;       // first element of every line
  Value length;      // elements of every line; what is packed past it is zero up to a vector
  bool ragged;       // length may be no multiple of lanes
  bool shifts;       // words are shifted

  Value shifted(Value x) const { return shifts ? words.shifted(x) : x; }
};

// Lines along K: memory[base + word * pitch + line] for `lines` lines: blocks of lanes x lanes, transposed in
// registers. Meanwhile the next panel's lines are fetched into L2, or without one the same lines further on:
// there are too many for the processor to foresee, and each is a page of its own.
void pack_transposed(Emit& e, const PanelSource& s, int64_t lines, int64_t pitch, Value memory, Value base);

// Lines along K: memory[base + line * pitch + word] for `lines` lines.
void pack_copied(Emit& e, const PanelSource& s, int64_t lines, int64_t pitch, Value memory, Value base);

// Lines of K, all of `depth`: memory[base + word * pitch + position]. Past the end of K words are 0.
// `fetches`: meanwhile the lines that come next are fetched into L2, after this panel's the next one's.
void pack_across(Emit& e, const PanelSource& s, Value depth, int64_t pitch, Value memory, Value base,
                 bool fetches);

// Panels that B comes in (core/packed.h): the first column of the last one, and where that of `column`, its
// first, begins in block k0 of K.
Value last_panel(Emit& e, const CpuTile& t);
Value panel_at(Emit& e, const CpuTile& t, Value column, Value k0);
// All of the task's columns that come so, a block of K deep, as panels of f32: packing[column / n * n *
// tile_k
// + k * n + column % n], n the register tile's columns. Meanwhile those that come next are fetched into L2.
void pack_panels(Emit& e, const CpuTile& t, Value k0, Value depth);

// A stored K by M: memory[base + row * pitch + word]. Lines are k's; rows past `rows` are zero, and so is
// what a word has past `depth`; whole words there are anything.
void pack_a_transposed(Emit& e, const CpuTile& t, Value i, Value rows, Value k0, Value depth, int64_t pitch,
                       Value base);

}  // namespace lathe::emit
