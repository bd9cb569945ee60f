// Wide loads for memory-bound CUDA kernels and what sorts their registers, sm_80 and later. Addresses in
// shared memory are i32.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// What is read once and should leave L2 first, as the i64 that loads take.
Value evict_first(Emit& e);
// 16 bytes at `pointer` (global, 16-byte aligned) + `offset` as four i32 where `left` (i32) > `at_least`,
// else zeros without touching memory. They do not displace L1's contents, and L2 fetches the 256 bytes around
// them.
Values load_streaming(Emit& e, Value pointer, int64_t offset, Value policy, Value left, int64_t at_least);
// The `bytes` (1, 2, 4) at `pointer` (global, aligned to them) + `offset` as i32, upper bits zero, where
// `left` (i32) > `at_least`, else zero without touching memory.
Value load_present(Emit& e, Value pointer, int64_t offset, int64_t bytes, Value left, int64_t at_least);
// `count` (2, 4) i32 at an address + `offset` that is aligned to all of them.
Values load_shared_words(Emit& e, Value at, int64_t offset, int64_t count);
// Where `left` == `at`, the four words become those at the 16-byte aligned address.
void replace_shared_words(Emit& e, llvm::MutableArrayRef<Value> words, Value shared, Value left, int64_t at);

// Of two registers of two 16-bit elements each, the first elements, or the second ones: x's low, y's high.
Value pair_halves(Emit& e, Value x, Value y, bool second);
// The value (f32) of the lane whose number differs in `bit`.
Value exchange_lanes(Emit& e, Value x, int64_t bit);

}  // namespace lathe::emit
