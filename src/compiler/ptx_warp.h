// Instructions of a warp's lanes together, sm_80 and later (the shuffle: all). All 32 lanes must come to
// each.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit::ptx {

constexpr int64_t kWarp = 32;

// Over all lanes, in all lanes: the largest and the smallest of unsigned i32.
Value redux_max(Emit& e, Value x);
Value redux_min(Emit& e, Value x);
// i64 of the lane whose number differs in the bits of `mask`.
Value shuffle_xor(Emit& e, Value x, int32_t mask);

}  // namespace lathe::emit::ptx
