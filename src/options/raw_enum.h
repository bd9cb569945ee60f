// Enum fields as a caller filled them: any bits, where C++ allows a load of the declared range alone.
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
