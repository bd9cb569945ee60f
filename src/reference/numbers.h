// Element types on the host: names, conversions, random numbers, poison.
#pragma once

#include <lathe/lathe.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lathe::cli {

const char* name_of(lathe_dtype dtype);  // "f32", "f8e4m3", ...
// One of `names` as "f32|f16|bf16" writes them; LATHE_DTYPE_NONE for an unknown name.
lathe_dtype dtype_named(const std::string& name);
// f32, f16, bf16: what an epilogue reads and writes.
const std::vector<std::string>& float_names();
// The floats, i8 and the kinds of fp8: what a matmul multiplies.
const std::vector<std::string>& factor_names();
// Those and Q4_0: what its B may be.
const std::vector<std::string>& weight_names();
// The floats and i32: what a matmul's result may be.
const std::vector<std::string>& result_names();
// Of an element; of Q4_0, of a block of 32.
constexpr size_t bytes_of(lathe_dtype dtype) {
  switch (dtype) {
    case LATHE_F32:
    case LATHE_I32: return 4;
    case LATHE_F16:
    case LATHE_BF16: return 2;
    case LATHE_I64: return 8;
    case LATHE_I8:
    case LATHE_F8_E4M3:
    case LATHE_F8_E5M2:
    case LATHE_F8_E4M3_FNUZ:
    case LATHE_F8_E5M2_FNUZ: return 1;
    case LATHE_Q4_0: return 18;
    case LATHE_DTYPE_NONE: return 0;
  }
  return 0;
}
constexpr int64_t block_elements(lathe_dtype dtype) { return dtype == LATHE_Q4_0 ? 32 : 1; }
bool is_integer(lathe_dtype dtype);
bool is_f8(lathe_dtype dtype);

// Element `index` of an array at any alignment; of Q4_0 the number its block's scale makes of it.
// store() then sets its 4 bits alone, from the number itself (0..15); store_scale() sets the block's scale.
// Exact, except for i64 beyond 2^53; use load_integer() for those.
double load(const void* data, lathe_dtype dtype, int64_t index);
// Rounds to nearest, ties to even; beyond the largest finite value to infinity, in f8e4m3 and FNUZ, which
// have none, to NaN. Integers take integers within their range.
void store(void* data, lathe_dtype dtype, int64_t index, double value);
void store_scale(void* data, int64_t index, double value);
// For i8, i32 and i64; exact. Storing keeps the low bits.
int64_t load_integer(const void* data, lathe_dtype dtype, int64_t index);
void store_integer(void* data, lathe_dtype dtype, int64_t index, int64_t value);
// For a float dtype: the relative rounding error (half a unit in the last place); the absolute rounding error
// of subnormals; the largest finite value; and the result for larger numbers with the sign of `value`.
double rounding(lathe_dtype dtype);
double smallest_rounding(lathe_dtype dtype);
double largest(lathe_dtype dtype);
double overflow_of(lathe_dtype dtype, double value);

// What memory holds that no kernel has written and none may read: all ones, which is NaN in every float but
// FNUZ, whose only NaN is the byte 0x80; in integers as wide as a result the same bytes, which are below
// every sum of up to 131071 products of bytes.
uint8_t poison_of(lathe_dtype dtype);

// xoshiro256++ under a ziggurat: independent standard normals, a few nanoseconds each.
class Normal {
 public:
  explicit Normal(uint64_t seed);
  float next();
  uint64_t bits();
  int64_t below(int64_t bound) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(bound)); }

 private:
  uint64_t state_[4];
};

}  // namespace lathe::cli
