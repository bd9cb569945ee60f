// Warp-level tensor cores of sm_80 and later: asynchronous copies into shared memory, ldmatrix and mma.sync.
// Every lane of a warp must come to each of them together.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// Sixteen bytes from `global` (!llvm.ptr<1>) to `shared` (!llvm.ptr<3>), both 16-byte aligned. The first
// `bytes` (i32) are read and the rest is zero; null: all are read.
void copy_async(Emit& e, Value shared, Value global, Value bytes);
// The thread's copies since the last commit become a group.
void commit_copies(Emit& e);
// Waits until at most `pending` of the thread's groups, the youngest, are under way.
void wait_copies(Emit& e, int64_t pending);

// Four matrices of 8 rows of 16 bytes in shared memory; lane l points at row l % 8 of matrix l / 8. Of each
// matrix lane l gets one register (i32): bytes l % 4 * 4 to + 3 of row l / 4. `transposed`, of 2-byte
// elements: elements l % 4 * 2 and the next of column l / 4.
Values load_matrices(Emit& e, Value shared, bool transposed);

// sums + A B of a 16 x 8 tile. `a`: four registers, `b`: two, as load_matrices gives them. `element`: of A
// and B; f32 is multiplied as tf32. Sums: four f32, of i8 four i32; lane l has columns l % 4 * 2 and the next
// of row l / 4, then of row l / 4 + 8.
Values multiply_matrices(Emit& e, Type element, llvm::ArrayRef<Value> a, llvm::ArrayRef<Value> b,
                         llvm::ArrayRef<Value> sums);
// The first version of PTX that multiplies such elements on every target that can; 0: as old as the target.
int64_t least_ptx_of_mma(Type element);
// f32 to the nearest tf32, ties away from zero, both as i32.
Value round_to_tf32(Emit& e, Value bits);

}  // namespace lathe::emit
