// Copies listed rows of A (GroupRows) to shared memory, for tensor cores that read A there. Threads copy them, because
// TMA copies boxes of rows that follow each other.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// Starts to copy 128 bytes of each of the tile's `rows` rows (a multiple of 8), from element `k` (index) on, to rows of
// 128 bytes with the 128-byte swizzle at `shared` (i32, aligned to 1024 bytes). Elements from `depth` (index) on become
// zeros. All lanes of one warp run this.
void copy_rows(Emit& e, const View& a, int64_t rows, Value lane, Value k, Value depth, Value shared);
// Waits for this thread's copies and makes them visible to tensor cores.
void finish_rows(Emit& e);

}  // namespace lathe::emit
