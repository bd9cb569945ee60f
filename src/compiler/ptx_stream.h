// Wide loads for memory-bound CUDA kernels, and permutations of their registers. For sm_80 and later. Addresses
// in shared memory are i32.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// The L2 cache policy (i64) for data that is read once and should be evicted first.
Value evict_first(Emit& e);
// Loads 16 bytes from `pointer` (global, 16-byte aligned) + `offset` as four i32 if `left` (i32) > `at_least`.
// Otherwise returns zeros without a memory access. The load does not allocate in L1, and L2 prefetches the 256
// bytes around it.
Values load_streaming(Emit& e, Value pointer, int64_t offset, Value policy, Value left, int64_t at_least);
// Loads 1, 2 or 4 bytes from `pointer` (global, aligned to `bytes`) + `offset` into an i32, zero-extended, if
// `left` (i32) > `at_least`. Otherwise returns zero without a memory access.
Value load_present(Emit& e, Value pointer, int64_t offset, int64_t bytes, Value left, int64_t at_least);
// Loads `count` (2 or 4) i32 from shared memory. The address `at` + `offset` is aligned to their total size.
Values load_shared_words(Emit& e, Value at, int64_t offset, int64_t count);
// Replaces the four words by those at the 16-byte aligned address `shared` if `left` == `at`.
void replace_shared_words(Emit& e, llvm::MutableArrayRef<Value> words, Value shared, Value left, int64_t at);

// x and y hold two 16-bit elements each. Returns the first (or the second) element of both: that of x in the low
// half, that of y in the high half.
Value pair_halves(Emit& e, Value x, Value y, bool second);
// The value (f32) of the lane whose index differs in the bits of `bit`.
Value exchange_lanes(Emit& e, Value x, int64_t bit);

}  // namespace lathe::emit
