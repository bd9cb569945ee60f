#include "reference/blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "reference/numbers.h"

namespace lathe::reference {
namespace {

float f16_at(const uint8_t* at) { return static_cast<float>(load(at, LATHE_F16, 0)); }
void store_f16(uint8_t* at, double value) { store(at, LATHE_F16, 0, value); }

// The lower and upper half of a byte.
int half_of(uint8_t byte, bool upper) { return upper ? byte >> 4 : byte & 15; }
void set_half(uint8_t* byte, bool upper, int64_t code) {
  *byte = static_cast<uint8_t>(upper ? (*byte & 15) | (code & 15) << 4 : (*byte & 0xf0) | (code & 15));
}
// `count` bits of a byte from bit `at` on.
void set_bits(uint8_t* byte, int64_t at, int count, int64_t bits) {
  const int64_t mask = ((1 << count) - 1) << at;
  *byte = static_cast<uint8_t>((*byte & ~mask) | (bits << at & mask));
}
int64_t random_below(uint64_t* bits, int64_t bound) {
  *bits = *bits * 6364136223846793005u + 1442695040888963407u;
  return static_cast<int64_t>((*bits >> 33) % static_cast<uint64_t>(bound));
}
// A random minimum of about the size of `scale` by a code; a small integer times `scale` with `whole`.
double random_minimum(double scale, uint64_t* bits, bool whole) {
  const double x = static_cast<double>(random_below(bits, 9) - 4);
  return std::isfinite(scale) ? x * scale : whole ? x : x / 8;
}

constexpr float kNone = -0.0f;  // the minimum of formats without minima; adding it changes no bit

// ---- Blocks of 32 with halves: element i is the lower half of byte i, element 16 + i its upper half.

template <int kFirst>  // the first byte of the halves
int half_code(const uint8_t* block, int64_t i) {
  return half_of(block[kFirst + i % 16], i >= 16);
}
template <int kFirst>
void store_half(uint8_t* block, int64_t i, int64_t code) {
  set_half(&block[kFirst + i % 16], i >= 16, code);
}
// The same with a fifth bit: bit i of the four bytes before the halves.
template <int kFirst>
int five_bits(const uint8_t* block, int64_t i) {
  return half_code<kFirst>(block, i) | (block[kFirst - 4 + i / 8] >> i % 8 & 1) << 4;
}
template <int kFirst>
void store_five_bits(uint8_t* block, int64_t i, int64_t code) {
  store_half<kFirst>(block, i, code);
  set_bits(&block[kFirst - 4 + i / 8], i % 8, 1, code >> 4);
}

constexpr int kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int kFp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};  // doubled e2m1

BlockParts split_q4_0(const uint8_t* b, int64_t i) {
  return {static_cast<float>(half_code<2>(b, i) - 8) * f16_at(b), kNone};
}
BlockParts split_q4_1(const uint8_t* b, int64_t i) {
  return {static_cast<float>(half_code<4>(b, i)) * f16_at(b), f16_at(b + 2)};
}
BlockParts split_q5_0(const uint8_t* b, int64_t i) {
  return {static_cast<float>(five_bits<6>(b, i) - 16) * f16_at(b), kNone};
}
BlockParts split_q5_1(const uint8_t* b, int64_t i) {
  return {static_cast<float>(five_bits<8>(b, i)) * f16_at(b), f16_at(b + 2)};
}
BlockParts split_q8_0(const uint8_t* b, int64_t i) {
  return {static_cast<float>(static_cast<int8_t>(b[2 + i])) * f16_at(b), kNone};
}
void store_q8_0(uint8_t* b, int64_t i, int64_t code) { b[2 + i] = static_cast<uint8_t>(code); }
BlockParts split_iq4_nl(const uint8_t* b, int64_t i) {
  return {static_cast<float>(kIq4Values[half_code<2>(b, i)]) * f16_at(b), kNone};
}
// The scale is 2^(e - 128), half of E8M0's, because the table's values are doubled. Byte 255 is no NaN in ggml.
BlockParts split_mxfp4(const uint8_t* b, int64_t i) {
  return {static_cast<float>(kFp4Values[half_code<1>(b, i)]) * std::ldexp(1.0f, b[0] - 128), kNone};
}

// The scale is an f16; `kDivide` makes values that are about as large as those of q4_0.
template <int kDivide>
void scale_first(uint8_t* b, double scale, uint64_t, bool whole) {
  store_f16(b, whole ? scale : scale / kDivide);
}
void scale_and_minimum(uint8_t* b, double scale, uint64_t bits, bool whole) {
  store_f16(b, scale);
  store_f16(b + 2, random_minimum(scale, &bits, whole));
}
// Values that are not finite, and 0, become the smallest scale.
void scale_mxfp4(uint8_t* b, double scale, uint64_t, bool) {
  const bool is_normal = std::isfinite(scale) && scale != 0;
  b[0] = is_normal ? static_cast<uint8_t>(std::clamp(128 + std::ilogb(scale), 0, 254)) : 0;
}

// ---- q4_k and q5_k: f16 scale and minimum, 12 bytes with a scale and a minimum of 6 bits for each of 8 groups of
// 32 elements, then in q5_k 32 bytes with the fifth bits, then halves: 32 bytes for every two groups.

int scale_k4(const uint8_t* q, int64_t j) { return j < 4 ? q[j] & 63 : (q[j + 4] & 15) | q[j - 4] >> 6 << 4; }
int minimum_k4(const uint8_t* q, int64_t j) { return j < 4 ? q[j + 4] & 63 : q[j + 4] >> 4 | q[j] >> 6 << 4; }

template <bool kFive>
BlockParts split_k(const uint8_t* b, int64_t i) {
  const int64_t group = i / 32;
  const uint8_t* halves = b + (kFive ? 48 : 16);
  int code = half_of(halves[i / 64 * 32 + i % 32], group % 2 != 0);
  if (kFive) code |= (b[16 + i % 32] >> group & 1) << 4;
  const float scale = f16_at(b) * static_cast<float>(scale_k4(b + 4, group));
  return {scale * static_cast<float>(code), -(f16_at(b + 2) * static_cast<float>(minimum_k4(b + 4, group)))};
}
template <bool kFive>
void store_k(uint8_t* b, int64_t i, int64_t code) {
  set_half(b + (kFive ? 48 : 16) + i / 64 * 32 + i % 32, i / 32 % 2 != 0, code);
  if (kFive) set_bits(&b[16 + i % 32], i / 32, 1, code >> 4);
}
void scales_k(uint8_t* b, double scale, uint64_t bits, bool whole) {
  store_f16(b, whole ? scale : scale / 32);
  store_f16(b + 2, whole || !std::isfinite(scale) ? 1 : scale / 8);
  const int64_t bound = whole ? 4 : 64;
  for (int64_t j = 0; j < 8; ++j) {
    const int64_t s = random_below(&bits, bound), m = random_below(&bits, bound);
    if (j < 4) {
      b[4 + j] = static_cast<uint8_t>(s);
      b[8 + j] = static_cast<uint8_t>(m);
    } else {
      b[8 + j] = static_cast<uint8_t>((s & 15) | (m & 15) << 4);
      set_bits(&b[j], 6, 2, s >> 4);
      set_bits(&b[4 + j], 6, 2, m >> 4);
    }
  }
}

// ---- q6_k: 128 bytes of lower halves, 64 bytes of upper pairs of bits, 16 i8 scales of 16 elements, an f16 scale. In
// each half of 128 elements, byte l of 64 holds elements l and 64 + l, byte l of 32 the upper bits of l, 32 + l, ...

constexpr int64_t kQ6Upper = 128, kQ6Scales = 192, kQ6Scale = 208;

BlockParts split_q6_k(const uint8_t* b, int64_t i) {
  const int64_t half = i / 128, in = i % 128;
  const int code = half_of(b[half * 64 + in % 64], in >= 64) |
                   (b[kQ6Upper + half * 32 + in % 32] >> (2 * (in / 32)) & 3) << 4;
  const float scale = f16_at(b + kQ6Scale) * static_cast<float>(static_cast<int8_t>(b[kQ6Scales + i / 16]));
  return {scale * static_cast<float>(code - 32), kNone};
}
void store_q6_k(uint8_t* b, int64_t i, int64_t code) {
  const int64_t half = i / 128, in = i % 128;
  set_half(&b[half * 64 + in % 64], in >= 64, code);
  set_bits(&b[kQ6Upper + half * 32 + in % 32], 2 * (in / 32), 2, code >> 4);
}
void scales_q6_k(uint8_t* b, double scale, uint64_t bits, bool whole) {
  store_f16(b + kQ6Scale, whole ? scale : scale / 128);
  for (int j = 0; j < 16; ++j)
    b[kQ6Scales + j] = static_cast<uint8_t>(whole ? random_below(&bits, 7) - 3 : random_below(&bits, 256));
}

// ---- iq4_xs: an f16 scale, 8 pairs of upper bits of the groups' scales, 8 lower halves of them, then 16 bytes of
// halves for every 32 elements.

BlockParts split_iq4_xs(const uint8_t* b, int64_t i) {
  const int64_t group = i / 32;
  const int high = (b[2] | b[3] << 8) >> (2 * group) & 3;
  const int scale = (half_of(b[4 + group / 2], group % 2 != 0) | high << 4) - 32;
  const int value = kIq4Values[half_of(b[8 + group * 16 + i % 16], i % 32 >= 16)];
  return {f16_at(b) * static_cast<float>(scale) * static_cast<float>(value), kNone};
}
void store_iq4_xs(uint8_t* b, int64_t i, int64_t code) {
  set_half(&b[8 + i / 32 * 16 + i % 16], i % 32 >= 16, code);
}
void scales_iq4_xs(uint8_t* b, double scale, uint64_t bits, bool whole) {
  store_f16(b, whole ? scale : scale / 256);
  for (int64_t j = 0; j < 8; ++j) {
    const int64_t s = whole ? 29 + random_below(&bits, 7) : random_below(&bits, 64);
    set_half(&b[4 + j / 2], j % 2 != 0, s);
    set_bits(&b[2 + j / 4], 2 * (j % 4), 2, s >> 4);
  }
}

}  // namespace

// One row per block format.
const std::vector<BlockFormat>& block_formats() {
  static const std::vector<BlockFormat> formats = {
      {LATHE_Q4_0, "q4_0", 18, 32, 16, true, split_q4_0, store_half<2>, scale_first<1>},
      {LATHE_Q8_0, "q8_0", 34, 32, 256, true, split_q8_0, store_q8_0, scale_first<16>},
      {LATHE_Q4_1, "q4_1", 20, 32, 16, true, split_q4_1, store_half<4>, scale_and_minimum},
      {LATHE_Q5_0, "q5_0", 22, 32, 32, true, split_q5_0, store_five_bits<6>, scale_first<2>},
      {LATHE_Q5_1, "q5_1", 24, 32, 32, true, split_q5_1, store_five_bits<8>, scale_and_minimum},
      {LATHE_Q4_K, "q4_k", 144, 256, 16, false, split_k<false>, store_k<false>, scales_k},
      {LATHE_Q5_K, "q5_k", 176, 256, 32, false, split_k<true>, store_k<true>, scales_k},
      {LATHE_Q6_K, "q6_k", 210, 256, 64, false, split_q6_k, store_q6_k, scales_q6_k},
      {LATHE_IQ4_NL, "iq4_nl", 18, 32, 16, true, split_iq4_nl, store_half<2>, scale_first<16>},
      {LATHE_IQ4_XS, "iq4_xs", 136, 256, 16, false, split_iq4_xs, store_iq4_xs, scales_iq4_xs},
      {LATHE_MXFP4, "mxfp4", 17, 32, 16, true, split_mxfp4, store_half<1>, scale_mxfp4}};
  return formats;
}

const BlockFormat* block_format(lathe_dtype dtype) {
  for (const BlockFormat& f : block_formats())
    if (f.dtype == dtype) return &f;
  return nullptr;
}

}  // namespace lathe::reference
