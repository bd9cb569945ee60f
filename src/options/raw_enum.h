// Reads the bits of an enum field that a caller filled. Loading an enum with an undeclared value is undefined
// behaviour in C++, and a caller may pass any bits.
#pragma once

#include <cstdint>
#include <cstring>

namespace lathe {

template <typename E>
uint32_t raw(const E& value) {
  static_assert(sizeof(E) == sizeof(uint32_t), "the C API's enums are 32 bits wide");
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

}  // namespace lathe
