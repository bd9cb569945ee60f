// Instructions across the lanes of a warp, for sm_80 and later (the shuffle: for all targets). All 32 lanes must
// run each of these.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit::ptx {

constexpr int64_t kWarp = 32;

// The maximum and the minimum of an unsigned i32 over all lanes. All lanes get the result.
Value redux_max(Emit& e, Value x);
Value redux_min(Emit& e, Value x);
// The value (i64) of the lane whose index differs in the bits of `mask`.
Value shuffle_xor(Emit& e, Value x, int32_t mask);

}  // namespace lathe::emit::ptx
