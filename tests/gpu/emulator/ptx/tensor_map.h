// The contents of a CUtensorMap. The encoding in its 128 opaque bytes is the emulator's own.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "tests/gpu/emulator/ptx/types.h"

namespace lathe::ptx {

inline constexpr size_t kTensorMapBytes = 128;

enum class Swizzle : uint8_t { none, bytes32, bytes64, bytes128 };

struct TensorMap {
  Type type = Type::b16;  // the element type; reductions tell s32, u32, f32, ... apart
  uint32_t rank = 1;
  uint64_t address = 0;
  std::array<uint64_t, 5> extent = {};  // elements; [0] is the contiguous dimension
  std::array<uint64_t, 5> stride = {};  // bytes; [0] is the size of an element
  std::array<uint32_t, 5> box = {};     // elements
  Swizzle swizzle = Swizzle::none;
  bool nan_fill = false;  // elements outside the tensor are NaN instead of zero
};

void encode_tensor_map(const TensorMap& map, uint8_t* bytes);
// Nothing if the bytes are not a tensor map.
std::optional<TensorMap> decode_tensor_map(const uint8_t* bytes);

// The swizzled shared address of the byte at `address`: bits 4 to 6 are XORed with bits 7 to 9. The swizzle's span
// says how many of these bits take part.
inline uint32_t swizzled(uint32_t address, Swizzle swizzle) {
  const uint32_t bits = (1u << static_cast<int>(swizzle)) - 1;
  return address ^ (((address >> 7) & bits) << 4);
}
inline uint32_t swizzle_span(Swizzle swizzle) {
  return swizzle == Swizzle::none ? 16 : 16u << static_cast<int>(swizzle);
}

}  // namespace lathe::ptx
