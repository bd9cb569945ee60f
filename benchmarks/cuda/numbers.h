// 16-bit floats on the host, for inputs and for checking against float64.
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/lathe.h"

namespace lathe::bench {

// `dtype` is LATHE_F16 or LATHE_BF16.
double value_of(uint16_t bits, lathe_dtype dtype);
uint16_t rounded(float value, lathe_dtype dtype);
// `count` of N(0, 1).
std::vector<uint16_t> normal_numbers(size_t count, lathe_dtype dtype, uint64_t seed);

}  // namespace lathe::bench
