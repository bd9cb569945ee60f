// Element types for the reference: exact values in double, rounded to nearest even by arithmetic. Shares no code with
// the library under test.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lathe/lathe.h"

namespace lathe::conformance {

// Bytes of an element, or of a block of elements_of() elements.
size_t bytes_of(lathe_dtype dtype);
int64_t elements_of(lathe_dtype dtype);
const char* name_of(lathe_dtype dtype);

bool is_integer(lathe_dtype dtype);

// The value of `dtype` nearest to `x`, ties to even, keeping subnormals. Beyond the range the result is infinity, or
// NaN in f8e4m3 and FNUZ types, which have no infinity. Integers are returned unchanged.
double round_to(lathe_dtype dtype, double x);
// The largest finite value.
double largest(lathe_dtype dtype);
// Writes `value`, which `dtype` must represent exactly, at any address. For integers NaN becomes the lowest value.
void store(lathe_dtype dtype, double value, void* at);
double load(lathe_dtype dtype, const void* at);

// Unit roundoff of f32, the accumulation type of every kernel.
inline constexpr double kUnitRoundoff = 1.0 / (1 << 24);

// xoshiro256**; the same seed gives the same numbers.
class Random {
 public:
  explicit Random(uint64_t seed);
  uint64_t next();
  int64_t below(int64_t bound) { return static_cast<int64_t>(next() % static_cast<uint64_t>(bound)); }
  int64_t between(int64_t lo, int64_t hi) { return lo + below(hi - lo + 1); }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double normal();

 private:
  uint64_t state_[4];
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace lathe::conformance
