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
// Those and the block formats: what its B may be.
const std::vector<std::string>& weight_names();
// The floats and i32: what a matmul's result may be.
const std::vector<std::string>& result_names();
// A format that stores elements in blocks along K. A block holds small whole numbers and their scale.
struct BlockFormat {
  lathe_dtype dtype;
  const char* name;
  size_t bytes;                   // of a block
  int64_t elements;               // of a block
  int64_t lowest, zero, highest;  // the stored numbers' range, and the number that stands for 0
  bool has_int8;                  // LATHE_MATH_INT8 applies
  // Element `inside` of a block: its value, and storing its number (not its value).
  double (*load)(const uint8_t* block, int64_t inside);
  void (*store)(uint8_t* block, int64_t inside, int64_t number);
  void (*store_scale)(uint8_t* block, double scale);
};
const std::vector<BlockFormat>& block_formats();
const BlockFormat* block_format(lathe_dtype dtype);  // null: not a block format

size_t bytes_of(lathe_dtype dtype);  // of an element, or of a block
int64_t block_elements(lathe_dtype dtype);
bool is_integer(lathe_dtype dtype);
bool is_f8(lathe_dtype dtype);

// Element `index` of an array at any alignment. In a block format load() returns the number times its block's
// scale, store() sets the number alone, and store_scale() sets the scale of the element's block.
// Exact, except for i64 beyond 2^53; use load_integer() for those.
double load(const void* data, lathe_dtype dtype, int64_t index);
// Rounds to nearest, ties to even; beyond the largest finite value to infinity, in f8e4m3 and FNUZ, which
// have none, to NaN. Integers take integers within their range.
void store(void* data, lathe_dtype dtype, int64_t index, double value);
void store_scale(void* data, lathe_dtype dtype, int64_t index, double value);
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
