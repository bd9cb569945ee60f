// Checks samples of a product.
#pragma once

#include <cstdint>
#include <string>

#include "peers.h"

namespace lathe::bench {

// Compares 64 elements of D (f32, for i8 i32) with float64. The bound allows for f32 sums in any order.
// Prints the first wrong element.
bool is_right(const Gemm& p, const std::string& name, const void* a, const void* b, const void* d,
              uint64_t seed);

}  // namespace lathe::bench
