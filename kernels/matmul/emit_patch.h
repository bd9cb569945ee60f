// Stores a part of a tile's products from shared memory to D, row by row, so that adjacent lanes of a warp access
// adjacent 16 bytes of D (and of C and the residual).
#pragma once

#include "kernels/matmul/emit_gpu.h"

namespace lathe::emit {

// A part of the tile of D that one warp stores.
struct Patch {
  int64_t rows, columns;
  int64_t pitch;            // f32 (i32) elements from one row to the next in shared memory
  Value row, column, lane;  // i32: where it begins in the tile of D; the lane
  bool grouped = false;  // of a grouped product, whose sums or residual may be rows of N f32 without padding
};
// Loads `count` (1, 2 or 4) adjacent products, `offset` (i32) bytes from the start of the patch.
using LoadSums = std::function<Values(Value offset, int64_t count)>;
// All lanes of the warp run this. D's rows are aligned to 16 bytes.
void store_patch(Emit& e, TileProgram& p, const Patch& patch, const LoadSums& load);

}  // namespace lathe::emit
