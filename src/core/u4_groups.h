// Weights of 4 bits with a scale and a zero point for each 128 elements of K: AWQ's and GPTQ's tensors, and the blocks of
// u4_128 that lathe_pack_weights makes of them.
//
// A block of u4_128: an f16 scale, the zero point as a byte, a byte 0, then 64 bytes with the codes. Byte i of each 16
// holds element i of 32 in its lower half and element 16 + i in its upper half.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace lathe {

constexpr int64_t kU4Group = 128;
constexpr int64_t kU4PerWord = 8;

constexpr bool is_u4_source(DType t) {
  return t == DType::kU4Awq || t == DType::kU4Gptq || t == DType::kU4GptqV2;
}

// A K by N weight: words of eight codes (AWQ: [K][N / 8], GPTQ: [K / 8][N]), zero points [K / 128][N / 8] in words, and
// f16 scales [K / 128][scales_leading]. `zeros` null: all zero points are 8.
struct U4Source {
  DType dtype;
  const void *codes, *zeros, *scales;
  int64_t k, n, scales_leading;
};
// Writes N columns of K / 128 blocks.
void pack_u4_groups(const U4Source& source, void* blocks);

}  // namespace lathe
