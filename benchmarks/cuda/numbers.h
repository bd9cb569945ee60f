// Elements on the host, to make inputs and to check results against float64.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "lathe/lathe.h"

namespace lathe::bench {

constexpr size_t size_of(lathe_dtype dtype) { return lathe::size_of(static_cast<DType>(dtype)); }

// The dtype of D for these operands: bf16 for e4m3, i32 for i8, else the same.
lathe_dtype result_of(lathe_dtype operands);
// Largest relative error of rounding a float to `dtype`; 0 for i32.
double half_ulp(lathe_dtype dtype);
// The element at `at`; dtype is f16, bf16, e4m3, i8 or i32.
double value_of(const uint8_t* at, lathe_dtype dtype);
// `count` random elements: N(0, 1) for f16, bf16 and e4m3, uniform over -127..127 for i8.
std::vector<uint8_t> random_numbers(size_t count, lathe_dtype dtype, uint64_t seed);

}  // namespace lathe::bench
