// Wide loads for memory-bound CUDA kernels, sm_80 and later. Addresses in shared memory are i32.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// What is read once and should leave L2 first, as the i64 that loads take.
Value evict_first(Emit& e);
// 16 bytes at `pointer` (global, 16-byte aligned) + `offset` as four i32 where `left` (i32) > `at_least`,
// else zeros without touching memory. They do not displace L1's contents, and L2 fetches the 256 bytes around
// them.
Values load_streaming(Emit& e, Value pointer, int64_t offset, Value policy, Value left, int64_t at_least);
// Four i32 at a 16-byte aligned address + `offset`.
Values load_shared_words(Emit& e, Value at, int64_t offset);

// Where `left` == `at`, the four words become those at the 16-byte aligned address.
void replace_shared_words(Emit& e, llvm::MutableArrayRef<Value> words, Value shared, Value left, int64_t at);

}  // namespace lathe::emit
