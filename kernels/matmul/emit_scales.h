// Where GPU kernels find the scales of blocks that are stored apart, in every layout (core/block_scaled.h, ScaleSteps).
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

class GpuKernel;
class GpuStep;

// The scales of an operand's part of a tile. All values but `memory` are of type index and count scales, lines or
// elements.
struct ScalePlaces {
  Value memory;  // a memref of bytes; null if the operand has no scales apart
  Value matrix;  // the first scale of the matrix
  Value list;    // listed rows: the first scale of each of the tile's rows (a memref), in place of the lines
  Value first_line;  // to which the tile's first line belongs
  Value line_step;   // lines from one line of the tile to the next; null: 1
  Value line128, line32, line;
  Value first_k;  // element of the line with which the tile's K begins
  Value block16, block4, block;

  // The first scale of line `i` of the tile.
  Value of_line(Emit& e, Value i) const;
  // The address of the scale of element `k` of the tile's K. `first`: of_line().
  Value at(Emit& e, DType blocks, Value first, Value k) const;
  // i1: whether `count` (at least 1) lines of the tile certainly have the same scales; whether every 128 elements share
  // one.
  Value all_same(Emit& e, Value count) const;
  Value of_128(Emit& e, DType blocks) const;
};

// Of A (0) or B (1).
ScalePlaces scale_places(Emit& e, const GpuStep& step, const TileProgram& p, unsigned operand);
// The first scale of the row of A that belongs to a slot of a grouped product. `outer`, `within`: index.
Value scales_of_slot(Emit& e, const Arguments& a, Value outer, Value within);
// The step's arguments, with alpha multiplied by the factors of all scales of A and of those of B's `group` (index).
Arguments with_scale_factors(Emit& e, GpuKernel& kernel, const GpuStep& step, Value group);

}  // namespace lathe::emit
