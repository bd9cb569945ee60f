// Element types on the host: conversions, normal random fills, poison.
#pragma once

#include <lathe/lathe.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lathe::cli {

// "f32", "f16", "bf16".
const std::vector<std::string>& float_names();
lathe_dtype float_dtype(const std::string& name);  // a name of float_names()
size_t bytes_of(lathe_dtype dtype);

// Exact: every f16 and bf16 is an f32.
float load(const void* data, lathe_dtype dtype, int64_t index);
// Rounds to nearest, ties to even.
void store(void* data, lathe_dtype dtype, int64_t index, float value);
// Half a unit in the last place, relative; and the smallest absolute rounding error, of subnormals.
double rounding(lathe_dtype dtype);
double smallest_rounding(lathe_dtype dtype);

// An untyped array of `count` elements.
struct Array {
  Array() = default;
  Array(int64_t count, lathe_dtype dtype) : dtype(dtype), count(count), bytes(count * bytes_of(dtype)) {}
  lathe_dtype dtype = LATHE_DTYPE_NONE;
  int64_t count = 0;
  std::vector<uint8_t> bytes;

  void* data() { return bytes.data(); }
  float at(int64_t index) const { return load(bytes.data(), dtype, index); }
  // NaN in every element of a float type, -1 in an integer's.
  void poison();
};

// xoshiro256++ under a ziggurat: independent standard normals, a few nanoseconds each.
class Normal {
 public:
  explicit Normal(uint64_t seed);
  float next();
  uint64_t bits();
  void fill(Array* array);

 private:
  uint64_t state_[4];
};

}  // namespace lathe::cli
