// Element types for the references of the suite: those of src/reference, which shares no code with the library under test,
// and whose tests are in tests/reference/numbers_test.cc.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "lathe/lathe.h"
#include "reference/numbers.h"

namespace lathe::conformance {

// Bytes of an element, or of a block of elements_of() elements.
using reference::bytes_of;
inline int64_t elements_of(lathe_dtype dtype) { return reference::block_elements(dtype); }
using reference::is_integer;
using reference::largest;
using reference::name_of;

// For integers NaN becomes the lowest value.
inline void store(lathe_dtype dtype, double value, void* at) {
  if (is_integer(dtype) && std::isnan(value))
    value = dtype == LATHE_I8 ? -128 : static_cast<double>(std::numeric_limits<int32_t>::min());
  reference::store(at, dtype, 0, value);
}
inline double load(lathe_dtype dtype, const void* at) { return reference::load(at, dtype, 0); }

// The value of `dtype` nearest to `x`, ties to even, keeping subnormals. Beyond the range the result is infinity, or
// NaN in f8e4m3 and FNUZ types, which have no infinity. Integers are returned unchanged.
inline double round_to(lathe_dtype dtype, double x) {
  if (is_integer(dtype)) return x;
  uint8_t element[8];
  store(dtype, x, element);
  return load(dtype, element);
}

// Unit roundoff of f32, the accumulation type of every kernel.
inline constexpr double kUnitRoundoff = 1.0 / (1 << 24);

// The same seed gives the same numbers.
class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}
  uint64_t next() { return bits_.bits(); }
  int64_t below(int64_t bound) { return bits_.below(bound); }
  int64_t between(int64_t lo, int64_t hi) { return lo + below(hi - lo + 1); }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double normal() { return bits_.next(); }

 private:
  reference::Normal bits_;
};

}  // namespace lathe::conformance
