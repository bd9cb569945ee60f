#include "tests/gpu/emulator/ptx/tensor_map.h"

#include <cstring>

namespace lathe::ptx {
namespace {

constexpr uint64_t kMagic = 0x70616d726f736e74;
struct Encoded {
  uint64_t magic, address;
  uint32_t extent[5];  // minus one, because extents go up to 2^32
  uint16_t box[5];
  uint8_t type, rank, swizzle, nan_fill;
  uint64_t stride[4];
};
static_assert(sizeof(Encoded) <= kTensorMapBytes);

}  // namespace

void encode_tensor_map(const TensorMap& map, uint8_t* bytes) {
  Encoded encoded = {};
  encoded.magic = kMagic;
  encoded.address = map.address;
  encoded.type = static_cast<uint8_t>(map.type);
  encoded.rank = static_cast<uint8_t>(map.rank);
  encoded.swizzle = static_cast<uint8_t>(map.swizzle);
  encoded.nan_fill = map.nan_fill;
  for (uint32_t d = 0; d < map.rank; ++d) {
    encoded.extent[d] = static_cast<uint32_t>(map.extent[d] - 1);
    encoded.box[d] = static_cast<uint16_t>(map.box[d]);
    if (d > 0) encoded.stride[d - 1] = map.stride[d];
  }
  std::memset(bytes, 0, kTensorMapBytes);
  std::memcpy(bytes, &encoded, sizeof encoded);
}

std::optional<TensorMap> decode_tensor_map(const uint8_t* bytes) {
  Encoded encoded;
  std::memcpy(&encoded, bytes, sizeof encoded);
  if (encoded.magic != kMagic) return std::nullopt;
  TensorMap map;
  map.type = static_cast<Type>(encoded.type);
  map.rank = encoded.rank;
  map.address = encoded.address;
  map.swizzle = static_cast<Swizzle>(encoded.swizzle);
  map.nan_fill = encoded.nan_fill != 0;
  map.stride[0] = type_size(map.type);
  for (uint32_t d = 0; d < map.rank; ++d) {
    map.extent[d] = uint64_t{encoded.extent[d]} + 1;
    map.box[d] = encoded.box[d];
    if (d > 0) map.stride[d] = encoded.stride[d - 1];
  }
  return map;
}

}  // namespace lathe::ptx
