// Elements on the host, to make inputs and to check results against float64.
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/lathe.h"
#include "reference/numbers.h"

namespace lathe::bench {

inline size_t size_of(lathe_dtype dtype) { return reference::bytes_of(dtype); }
inline double value_of(const uint8_t* at, lathe_dtype dtype) { return reference::load(at, dtype, 0); }

// The dtype of D for these operands: bf16 for e4m3, i32 for i8, else the same.
lathe_dtype result_of(lathe_dtype operands);
// `count` random elements: N(0, 1) for floats, uniform over -127..127 for i8.
std::vector<uint8_t> random_numbers(size_t count, lathe_dtype dtype, uint64_t seed);

}  // namespace lathe::bench
