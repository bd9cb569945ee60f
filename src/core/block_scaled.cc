#include "core/block_scaled.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace lathe {
namespace {

constexpr int64_t kTileLines = 128, kTileBlocks = 4;  // of a tile of kTiled

// A float of one sign bit, `exponent` and `mantissa` bits, as OCP's fp8 and fp4 are. `code` has no sign.
float small_float(int code, int exponent, int mantissa) {
  const int bias = (1 << (exponent - 1)) - 1, e = code >> mantissa, m = code & ((1 << mantissa) - 1);
  if (e == 0) return std::ldexp(static_cast<float>(m), 1 - bias - mantissa);
  return std::ldexp(static_cast<float>(m | 1 << mantissa), e - bias - mantissa);
}
float value_of(DType t, int code) {
  if (t == DType::kF8E8M0) return code == 255 ? NAN : std::ldexp(1.0f, code - 127);
  const int magnitude = code & (t == DType::kF4E2M1 ? 7 : 127);
  float x = t == DType::kF4E2M1   ? small_float(magnitude, 2, 1)
            : t == DType::kF8E4M3 ? small_float(magnitude, 4, 3)
                                  : small_float(magnitude, 5, 2);
  if (t == DType::kF8E4M3 && magnitude == 127) x = NAN;
  if (t == DType::kF8E5M2 && magnitude >= 124) x = magnitude == 124 ? INFINITY : NAN;
  return code == magnitude ? x : -x;
}

using Values = std::array<float, 256>;
Values values_of(DType t) {
  Values values;
  for (int code = 0; code < 256; ++code)
    values[static_cast<size_t>(code)] = value_of(t, t == DType::kF4E2M1 ? code & 15 : code);
  return values;
}
const Values& table_of(DType t) {
  static const Values e8m0 = values_of(DType::kF8E8M0), e4m3 = values_of(DType::kF8E4M3),
                      e5m2 = values_of(DType::kF8E5M2), e2m1 = values_of(DType::kF4E2M1);
  return t == DType::kF8E8M0 ? e8m0 : t == DType::kF8E4M3 ? e4m3 : t == DType::kF8E5M2 ? e5m2 : e2m1;
}

// The index of a scale of one matrix: of a byte, or of an f32.
int64_t index_of(const ScaledFormat& f, const ScaleSteps& s, int64_t line, int64_t block) {
  block *= f.block / elements_of_scale(f.blocks);
  return line / 128 * s.line128 + line / 32 % 4 * s.line32 + line % 32 * s.line + block / 16 * s.block16 +
         block / 4 % 4 * s.block4 + block % 4 * s.block;
}

template <typename T>
T read_as(const void* data, int64_t index) {
  T x;
  std::memcpy(&x, static_cast<const char*>(data) + index * static_cast<int64_t>(sizeof(T)), sizeof x);
  return x;
}

// Calls store(block, index) for every scale of a line. Blocks are a constant distance apart, by fours at most.
template <typename Store>
void each_scale(const StoredScales& s, int64_t matrix, int64_t line, const Store& store) {
  const ScaleSteps steps = s.steps();
  const int64_t base = matrix * steps.matrix;
  for (int64_t block = 0; block < s.blocks; block += 4) {
    const int64_t first = base + index_of(*s.format, steps, line, block),
                  count = std::min<int64_t>(4, s.blocks - block),
                  step = s.layout == ScaleLayout::kByBlock ? s.leading : 1;
    for (int64_t i = 0; i < count; ++i) store(block + i, first + i * step);
  }
}

}  // namespace

const ScaledFormat* find_scaled_format(DType element, DType scale, int64_t block) {
  for (const ScaledFormat& f : kScaledFormats)
    if (f.element == element && f.scale == scale && f.block == block) return &f;
  return nullptr;
}

std::string scaled_format_names() {
  std::string names;
  for (const ScaledFormat& f : kScaledFormats)
    absl::StrAppend(&names, names.empty() ? "" : ", ", name_of(f.element), " with ", name_of(f.scale),
                    " scales of ", f.block);
  return names;
}

ScaleSteps StoredScales::steps() const {
  ScaleSteps s;
  s.matrix = layout == ScaleLayout::kPackedByFour ? 4 * stride : stride;
  int64_t of_four = 4, of_block = 1;  // from a block of `format` to the fourth one after it, and to the next
  switch (layout) {
    case ScaleLayout::kByLine: s.line = leading; break;
    case ScaleLayout::kByBlock: s.line = 1, of_four = 4 * leading, of_block = leading; break;
    case ScaleLayout::kPackedByFour: s.line = 4, of_four = 4 * leading; break;
    case ScaleLayout::kTiled:
      of_four = kTileLines * kTileBlocks;
      s.line = 4 * kTileBlocks, s.line32 = kTileBlocks, s.line128 = ceil_div(blocks, kTileBlocks) * of_four;
  }
  if (layout != ScaleLayout::kTiled) s.line32 = 32 * s.line, s.line128 = 128 * s.line;
  if (lines_each == kTallLines) s.line128 = s.line, s.line32 = s.line = 0;
  if (blocks_each() == 1)
    s.block = of_block, s.block4 = of_four, s.block16 = 4 * of_four;
  else
    s.block4 = of_block, s.block16 = of_four;
  return s;
}

int64_t StoredScales::span(int64_t lines, int64_t matrices) const {
  if (lines == 0 || matrices == 0 || blocks == 0) return 0;
  const ScaleSteps s = steps();
  int64_t last = index_of(*format, s, lines - 1, blocks - 1);
  if (layout == ScaleLayout::kPackedByFour) last |= 3;
  if (layout == ScaleLayout::kTiled)
    last = ceil_div(lines, kTileLines) * ceil_div(blocks, kTileBlocks) * kTileLines * kTileBlocks - 1;
  return ((matrices - 1) * s.matrix + last + 1) * static_cast<int64_t>(size_of(format->scale));
}

void StoredScales::read_line(int64_t matrix, int64_t line, float* to) const {
  if (format->scale == DType::kF32)
    return each_scale(*this, matrix, line,
                      [&](int64_t block, int64_t index) { to[block] = read_as<float>(data, index); });
  const Values& values = table_of(format->scale);
  each_scale(*this, matrix, line,
             [&](int64_t block, int64_t index) { to[block] = values[read_as<uint8_t>(data, index)]; });
}

void StoredScales::read_plain(int64_t matrix, int64_t line, void* to) const {
  if (format->scale == DType::kF32) return read_line(matrix, line, static_cast<float*>(to));
  const int64_t each = blocks_each();
  each_scale(*this, matrix, line, [&](int64_t block, int64_t index) {
    std::fill_n(static_cast<uint8_t*>(to) + block * each, each, read_as<uint8_t>(data, index));
  });
}

void decode_line(const StoredScales& scales, int64_t matrix, int64_t line, const void* elements, int64_t k,
                 float* to) {
  const ScaledFormat& f = *scales.format;
  const Values& values = table_of(f.element);
  const auto* bytes = static_cast<const uint8_t*>(elements);
  const ScaleSteps steps = scales.steps();
  for (int64_t at = 0; at < k; at += f.block) {
    const int64_t index = matrix * steps.matrix + index_of(f, steps, line, at / f.block);
    const float scale = f.scale == DType::kF32 ? read_as<float>(scales.data, index)
                                               : table_of(f.scale)[read_as<uint8_t>(scales.data, index)];
    if (f.element == DType::kF4E2M1) {
      for (int64_t i = at; i < at + f.block; i += 2) {
        const uint8_t pair = bytes[i / 2];
        to[i] = values[pair & 15] * scale;
        to[i + 1] = values[pair >> 4] * scale;
      }
    } else {
      for (int64_t i = at; i < at + f.block; ++i) to[i] = values[bytes[i]] * scale;
    }
  }
}

}  // namespace lathe
