// Copies rows of an operand to shared memory, for tensor cores that read them there. Threads copy what TMA cannot:
// listed rows (GroupRows), and elements of 4 bits that get gaps.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// Rows of 128 bytes in shared memory, with the 128-byte swizzle.
struct SharedRows {
  int64_t rows = 0;  // a multiple of 8
  bool unpacks =
      false;   // 8 bytes of the operand are in the first half of 16 bytes, as TMA's 16U4_ALIGN16B has them
  Value last;  // index: rows after this one repeat it; null: all exist
};
// Starts to copy the part of each row of `from` that begins at element `k` (index) to `shared` (i32, aligned to 1024
// bytes). Elements from `depth` (index) on become zeros. All lanes of one warp run this.
void copy_rows(Emit& e, const View& from, const SharedRows& rows, Value lane, Value k, Value depth,
               Value shared);
// Waits for this thread's copies and makes them visible to tensor cores.
void finish_rows(Emit& e);

}  // namespace lathe::emit
