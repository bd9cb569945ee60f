// Warp-level tensor cores of sm_80 and later: cp.async, ldmatrix and mma.sync. All lanes of a warp must run each
// of these together.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// Copies 16 (8) bytes from `global` (!llvm.ptr<1>) to `shared` (!llvm.ptr<3>), both 16-byte (8-byte) aligned. Only the
// first `bytes` (i32) are read, and zeros are written for the rest. If `bytes` is null, all are read.
void copy_async(Emit& e, Value shared, Value global, Value bytes);
void copy_8_async(Emit& e, Value shared, Value global, Value bytes);
// Makes a group of this thread's copies since the last commit.
void commit_copies(Emit& e);
// Waits until at most the last `pending` groups of this thread are still running.
void wait_copies(Emit& e, int64_t pending);

// ldmatrix: loads four matrices of 8 rows of 16 bytes. Lane l passes the address of row l % 8 of matrix l / 8.
// It receives one i32 of each matrix: bytes l % 4 * 4 to l % 4 * 4 + 3 of row l / 4. With `transposed` (2-byte
// elements): elements l % 4 * 2 and l % 4 * 2 + 1 of column l / 4.
Values load_matrices(Emit& e, Value shared, bool transposed);

// mma.sync: sums + A * B for a 16 x 8 tile. `a` has four registers and `b` two, as load_matrices returns them.
// `element` is the type of A and B; f32 is multiplied as tf32. The sums are four f32 (i8: four i32): lane l has
// columns l % 4 * 2 and l % 4 * 2 + 1 of row l / 4, then of row l / 4 + 8.
Values multiply_matrices(Emit& e, Type element, llvm::ArrayRef<Value> a, llvm::ArrayRef<Value> b,
                         llvm::ArrayRef<Value> sums);
// The lowest PTX version with mma for this element type; 0 if the target's default version has it.
int64_t least_ptx_of_mma(Type element);
// Rounds f32 to the nearest tf32, ties away from zero. Both are passed as i32.
Value round_to_tf32(Emit& e, Value bits);

}  // namespace lathe::emit
