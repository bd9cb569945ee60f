// What a CUtensorMap says, in a layout of our own that fits its 128 opaque bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "tests/gpu/emulator/ptx/types.h"

namespace lathe::ptx {

inline constexpr size_t kTensorMapBytes = 128;

enum class Swizzle : uint8_t { none, bytes32, bytes64, bytes128 };

struct TensorMap {
  Type type = Type::b16;  // s32, u32, f32 ... as reductions need it
  uint32_t rank = 1;
  uint64_t address = 0;
  std::array<uint64_t, 5> extent = {};  // elements, the contiguous dimension first
  std::array<uint64_t, 5> stride = {};  // bytes; [0] is the element's size
  std::array<uint32_t, 5> box = {};     // elements
  Swizzle swizzle = Swizzle::none;
  bool nan_fill = false;  // outside the tensor NaN, not zero
};

void encode_tensor_map(const TensorMap& map, uint8_t* bytes);
// Nothing if the bytes are no tensor map.
std::optional<TensorMap> decode_tensor_map(const uint8_t* bytes);

// Where the byte that belongs at `address` of shared memory lies: bits 4 to 6 are exclusive-or'd with bits 7
// to 9, as many of them as the swizzle's span has.
inline uint32_t swizzled(uint32_t address, Swizzle swizzle) {
  const uint32_t bits = (1u << static_cast<int>(swizzle)) - 1;
  return address ^ (((address >> 7) & bits) << 4);
}
inline uint32_t swizzle_span(Swizzle swizzle) {
  return swizzle == Swizzle::none ? 16 : 16u << static_cast<int>(swizzle);
}

}  // namespace lathe::ptx
