#include "core/u4_groups.h"

#include <cstring>

namespace lathe {
namespace {

constexpr int64_t kBlockBytes = 68, kZeroAt = 2, kCodesAt = 4, kPiece = 32;
constexpr uint8_t kMiddle = 8;  // the zero point of symmetric weights

uint32_t word_at(const void* words, int64_t index) {
  uint32_t word;
  std::memcpy(&word, static_cast<const char*>(words) + index * 4, sizeof word);
  return word;
}
// AWQ stores columns 0, 2, 4, 6, 1, 3, 5, 7 of a word from its lowest bits on.
int64_t awq_shift(int64_t column) {
  const int64_t in = column % kU4PerWord;
  return 4 * (in % 2 * 4 + in / 2);
}
uint8_t code_of(const U4Source& s, int64_t k, int64_t column) {
  if (s.dtype == DType::kU4Awq)
    return word_at(s.codes, k * (s.n / kU4PerWord) + column / kU4PerWord) >> awq_shift(column) & 15;
  return word_at(s.codes, k / kU4PerWord * s.n + column) >> 4 * (k % kU4PerWord) & 15;
}
uint8_t zero_of(const U4Source& s, int64_t group, int64_t column) {
  if (s.zeros == nullptr) return kMiddle;
  const uint32_t word = word_at(s.zeros, group * (s.n / kU4PerWord) + column / kU4PerWord);
  if (s.dtype == DType::kU4Awq) return word >> awq_shift(column) & 15;
  const auto stored = static_cast<uint8_t>(word >> 4 * (column % kU4PerWord) & 15);
  return s.dtype == DType::kU4Gptq ? static_cast<uint8_t>(stored + 1) : stored;
}

}  // namespace

// Columns innermost, because both sources keep neighbouring columns together.
void pack_u4_groups(const U4Source& s, void* blocks) {
  static_assert(kBlockBytes == static_cast<int64_t>(size_of(DType::kU4x128)));
  const int64_t groups = s.k / kU4Group;
  for (int64_t group = 0; group < groups; ++group)
    for (int64_t column = 0; column < s.n; ++column) {
      auto* const block = static_cast<uint8_t*>(blocks) + (column * groups + group) * kBlockBytes;
      std::memcpy(block, static_cast<const char*>(s.scales) + (group * s.scales_leading + column) * 2, 2);
      block[kZeroAt] = zero_of(s, group, column);
      block[kZeroAt + 1] = 0;
      for (int64_t i = 0; i < kU4Group / 2; ++i) {
        const int64_t k = group * kU4Group + i / 16 * kPiece + i % 16;
        block[kCodesAt + i] = static_cast<uint8_t>(code_of(s, k, column) | code_of(s, k + 16, column) << 4);
      }
    }
}

}  // namespace lathe
