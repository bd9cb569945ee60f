// Element types on the host: names, conversions, random numbers, and poison (the initial content of memory).
#pragma once

#include <lathe/lathe.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "reference/blocks.h"

namespace lathe::reference {

const char* name_of(lathe_dtype dtype);  // "f32", "f8e4m3", ...
// The dtype of a name such as "bf16"; LATHE_DTYPE_NONE for an unknown name.
lathe_dtype dtype_named(const std::string& name);
// The dtypes of epilogue operands: f32, f16 and bf16.
const std::vector<std::string>& float_names();
// The dtypes of A: f32, f16, bf16, i8 and all fp8 types.
const std::vector<std::string>& factor_names();
// The dtypes of B: those of A, and the block formats.
const std::vector<std::string>& weight_names();
// The dtypes of a matmul's result: f32, f16, bf16 and i32.
const std::vector<std::string>& result_names();

size_t bytes_of(lathe_dtype dtype);  // of an element, or of a block
int64_t block_elements(lathe_dtype dtype);
// The least multiple of block_elements() that is at least `elements`.
int64_t whole_blocks(lathe_dtype dtype, int64_t elements);
bool is_integer(lathe_dtype dtype);
bool is_f8(lathe_dtype dtype);

// Element `index` of an array at any alignment. In a block format it includes the scale of its block. Exact, except
// for i64 beyond 2^53: use load_integer() for those.
double load(const void* data, lathe_dtype dtype, int64_t index);
// Rounds to nearest, ties to even. Values beyond the largest finite one become infinity, or NaN in f8e4m3 and FNUZ,
// which have no infinity. For integers `value` must be an integer in their range. In a block format
// it is the element's code (BlockFormat), and store_scales() sets the rest.
void store(void* data, lathe_dtype dtype, int64_t index, double value);
// Sets the scales of the block that contains element `index`, as BlockFormat::store_scales does.
void store_scales(void* data, lathe_dtype dtype, int64_t index, double scale, uint64_t bits, bool whole);
// For i8, i32 and i64; exact. Storing keeps the low bits.
int64_t load_integer(const void* data, lathe_dtype dtype, int64_t index);
void store_integer(void* data, lathe_dtype dtype, int64_t index, int64_t value);
// For a float dtype: the relative rounding error (half a unit in the last place), the absolute rounding error of
// subnormals, the largest finite value, and what larger numbers with the sign of `value` become.
double rounding(lathe_dtype dtype);
double smallest_rounding(lathe_dtype dtype);
double largest(lathe_dtype dtype);
double overflow_of(lathe_dtype dtype, double value);

// The byte that fills memory before a kernel writes it. In floats it gives NaN: 0xff, or 0x80 for FNUZ, which has no
// other NaN. In i32 and i64 (0x80) it gives a number below every sum of up to 131071 products of i8.
uint8_t poison_of(lathe_dtype dtype);

// Independent standard normal numbers, by xoshiro256++ and a ziggurat. Takes a few nanoseconds per number.
class Normal {
 public:
  explicit Normal(uint64_t seed);
  float next();
  uint64_t bits();
  int64_t below(int64_t bound) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(bound)); }

 private:
  uint64_t state_[4];
};

}  // namespace lathe::reference
