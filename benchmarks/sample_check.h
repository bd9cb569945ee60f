// Whether a product is right, looked at in samples.
#pragma once

#include <cstdint>
#include <string>

#include "peers.h"

namespace lathe::bench {

// 64 samples of D (f32, of bytes i32) against float64, within the error that any order of f32 sums stays well
// below. A column sampled is computed for its row alone. Prints the first that is wrong.
bool is_right(const Gemm& p, const std::string& name, const void* a, const void* b, const void* d,
              uint64_t seed);

}  // namespace lathe::bench
