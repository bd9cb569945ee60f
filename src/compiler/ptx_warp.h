// Instructions of a warp's lanes together, sm_80 and later. All 32 lanes must come to each.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit::ptx {

constexpr int64_t kWarp = 32;

// Over all lanes, in all lanes: the largest and the smallest of unsigned i32.
Value redux_max(Emit& e, Value x);
Value redux_min(Emit& e, Value x);

}  // namespace lathe::emit::ptx
