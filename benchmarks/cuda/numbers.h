// Elements on the host, for inputs and for checking against float64.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "lathe/lathe.h"

namespace lathe::bench {

constexpr size_t size_of(lathe_dtype dtype) { return lathe::size_of(static_cast<DType>(dtype)); }

// D's type in a product of such operands: bf16 of e4m3, i32 of i8, else the operands' own.
lathe_dtype result_of(lathe_dtype operands);
// Largest rounding error of storing a float as `dtype`, relative; 0 of i32.
double half_ulp(lathe_dtype dtype);
// The element that begins at `at`: f16, bf16, e4m3, i8 or i32.
double value_of(const uint8_t* at, lathe_dtype dtype);
// `count` elements: floats of N(0, 1) (f16, bf16, e4m3), i8 uniform over -127..127.
std::vector<uint8_t> random_numbers(size_t count, lathe_dtype dtype, uint64_t seed);

}  // namespace lathe::bench
