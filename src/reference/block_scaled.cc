#include "reference/block_scaled.h"

#include <cmath>
#include <cstring>

namespace lathe::reference {
namespace {

int64_t rounded_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

constexpr double kFp4[16] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};

double value_of_scale(lathe_dtype dtype, float code) {
  if (dtype == LATHE_F32) return static_cast<double>(code);
  const auto byte = static_cast<uint8_t>(code);
  if (dtype == LATHE_F8_E8M0) return byte == 255 ? NAN : std::ldexp(1.0, byte - 127);
  return load(&byte, dtype, 0);
}
bool is_nan_code(lathe_dtype dtype, uint8_t code) {
  return dtype != LATHE_F4_E2M1 && !std::isfinite(load(&code, dtype, 0));
}
// Random scales that make products of ordinary size.
float random_scale(lathe_dtype dtype, Normal* random) {
  if (dtype == LATHE_F32) return std::exp2(random->next()) / 256;
  if (dtype == LATHE_F8_E8M0) return static_cast<float>(114 + random->below(12));
  return static_cast<float>(8 + random->below(100));
}

}  // namespace

const std::vector<ScaledElements>& scaled_elements() {
  static const std::vector<ScaledElements> all = {{"f8_128", LATHE_F8_E4M3, LATHE_F32, 128, true},
                                                  {"f8_128_e8m0", LATHE_F8_E4M3, LATHE_F8_E8M0, 128, true},
                                                  {"mxf8", LATHE_F8_E4M3, LATHE_F8_E8M0, 32, false},
                                                  {"mxf8_e5m2", LATHE_F8_E5M2, LATHE_F8_E8M0, 32, false},
                                                  {"mxf4", LATHE_F4_E2M1, LATHE_F8_E8M0, 32, false},
                                                  {"nvf4", LATHE_F4_E2M1, LATHE_F8_E4M3, 16, false}};
  return all;
}

const ScaledElements* scaled_elements_named(const std::string& name) {
  for (const ScaledElements& f : scaled_elements())
    if (f.name == name) return &f;
  return nullptr;
}

ScaledMatrix::ScaledMatrix(const ScaledSpec& spec, Normal* random) : spec_(spec) {
  const ScaledElements& f = *spec.format;
  leading_ = spec.k + spec.padding;
  stride_ = spec.lines * leading_ + spec.padding;
  const int64_t bytes = spec.batch * stride_ / (f.element == LATHE_F4_E2M1 ? 2 : 1);
  elements_.assign(static_cast<size_t>(bytes) + spec.misalign + 1, 0xff);
  for (size_t i = spec.misalign; i + 1 < elements_.size(); ++i) {
    uint8_t code = 0;
    do code = static_cast<uint8_t>(random->bits() >> 20);
    while (is_nan_code(f.element, code));
    elements_[i] = code;
  }
  codes_.resize(static_cast<size_t>(matrices_of_scales() * scale_lines() * blocks()));
  for (float& code : codes_) code = random_scale(f.scale, random);
  for (int64_t i = 0; i < spec.batch; ++i) globals_.push_back(std::exp2(random->next()));
  store_scales();
}

double ScaledMatrix::at(int64_t matrix, int64_t line, int64_t k) const {
  const ScaledElements& f = *spec_.format;
  const int64_t index = matrix * stride_ + line * leading_ + k;
  const uint8_t* bytes = elements_.data() + spec_.misalign;
  const double element = f.element == LATHE_F4_E2M1 ? kFp4[bytes[index / 2] >> (index % 2 * 4) & 15]
                                                    : load(bytes, f.element, index);
  const int64_t of = spec_.shared_scales ? 0 : matrix;
  const int64_t at = (of * scale_lines() + line / spec_.lines_each) * blocks() + k / f.block;
  return element * value_of_scale(f.scale, codes_[static_cast<size_t>(at)]);
}

void ScaledMatrix::set_scale(int64_t matrix, int64_t line, int64_t block, double value) {
  codes_[static_cast<size_t>((matrix * scale_lines() + line / spec_.lines_each) * blocks() + block)] =
      static_cast<float>(value);
  store_scales();
}

// Tiles as PyTorch's to_blocked() makes them: 128 lines by 4 blocks become 32 rows of 16 bytes.
void ScaledMatrix::store_tiles(int64_t matrix) {
  const int64_t across = rounded_up(blocks(), 4) / 4, down = rounded_up(scale_lines(), 128) / 128;
  uint8_t* to = stored_.data() + matrix * scale_stride_;
  for (int64_t tile_row = 0; tile_row < down; ++tile_row)
    for (int64_t tile_column = 0; tile_column < across; ++tile_column, to += 512)
      for (int64_t quarter = 0; quarter < 4; ++quarter)
        for (int64_t row = 0; row < 32; ++row)
          for (int64_t column = 0; column < 4; ++column) {
            const int64_t line = tile_row * 128 + quarter * 32 + row, block = tile_column * 4 + column;
            if (line >= scale_lines() || block >= blocks()) continue;
            to[row * 16 + quarter * 4 + column] = static_cast<uint8_t>(
                codes_[static_cast<size_t>((matrix * scale_lines() + line) * blocks() + block)]);
          }
}

void ScaledMatrix::store_scales() {
  const ScaledElements& f = *spec_.format;
  const int64_t lines = scale_lines(), size = f.scale == LATHE_F32 ? 4 : 1, matrices = matrices_of_scales();
  int64_t of_matrix = 0;  // in scales
  switch (spec_.layout) {
    case LATHE_SCALES_BY_LINE:
      scale_leading_ = blocks() + spec_.scale_padding;
      scale_stride_ = of_matrix = lines * scale_leading_;
      break;
    case LATHE_SCALES_BY_BLOCK:
      scale_leading_ = lines + spec_.scale_padding;
      scale_stride_ = of_matrix = blocks() * scale_leading_;
      break;
    case LATHE_SCALES_PACKED_BY_FOUR:
      scale_leading_ = lines + spec_.scale_padding;
      scale_stride_ = rounded_up(blocks(), 4) / 4 * scale_leading_;
      of_matrix = scale_stride_ * 4;
      break;
    case LATHE_SCALES_TILED:
      scale_leading_ = 0;
      scale_stride_ = of_matrix = rounded_up(lines, 128) * rounded_up(blocks(), 4);
      break;
  }
  stored_.assign(static_cast<size_t>(matrices * of_matrix * size + size), 0xff);
  for (int64_t m = 0; m < matrices; ++m) {
    if (spec_.layout == LATHE_SCALES_TILED) {
      store_tiles(m);
      continue;
    }
    for (int64_t line = 0; line < lines; ++line)
      for (int64_t block = 0; block < blocks(); ++block) {
        int64_t at = m * of_matrix;
        if (spec_.layout == LATHE_SCALES_BY_LINE) at += line * scale_leading_ + block;
        if (spec_.layout == LATHE_SCALES_BY_BLOCK) at += block * scale_leading_ + line;
        if (spec_.layout == LATHE_SCALES_PACKED_BY_FOUR)
          at += (block / 4 * scale_leading_ + line) * 4 + block % 4;
        const float code = codes_[static_cast<size_t>((m * lines + line) * blocks() + block)];
        if (size == 4)
          std::memcpy(stored_.data() + at * 4, &code, 4);
        else
          stored_[static_cast<size_t>(at)] = static_cast<uint8_t>(code);
      }
  }
  if (spec_.shared_scales) scale_stride_ = 0;
}

lathe_operand ScaledMatrix::operand(bool column_major) const {
  lathe_operand o = LATHE_OPERAND_INIT;
  o.data = const_cast<uint8_t*>(elements_.data()) + spec_.misalign;
  o.dtype = spec_.format->element;
  o.layout = column_major ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
  o.leading_dimension = leading_;
  o.batch_stride = stride_;
  return o;
}

lathe_scale ScaledMatrix::scale() const {
  lathe_scale s = LATHE_SCALE_INIT;
  s.data = stored_.data();
  s.dtype = spec_.format->scale;
  s.granularity = LATHE_PER_BLOCK;
  s.block_size = spec_.format->block;
  s.block_lines = spec_.lines_each;
  s.layout = spec_.layout;
  s.leading_dimension = scale_leading_;
  s.batch_stride = scale_stride_;
  if (spec_.global) s.global = globals_.data();
  return s;
}

GroupedWeight::GroupedWeight(lathe_dtype of, int64_t depth, int64_t columns, int64_t matrices,
                             bool is_symmetric, Normal* random)
    : dtype(of), k(depth), n(columns), batch(matrices), symmetric(is_symmetric) {
  for (int64_t i = 0; i < batch * k * n; ++i) codes.push_back(static_cast<int>(random->below(16)));
  for (int64_t i = 0; i < batch * (k / 128) * n; ++i) {
    // GPTQ's first format cannot store a zero point 0.
    const int64_t least = dtype == LATHE_U4_GPTQ ? 1 : 0;
    zeros.push_back(symmetric ? 8 : static_cast<int>(least + random->below(16)));
    uint16_t scale = 0;
    store(&scale, LATHE_F16, 0, std::exp2(static_cast<double>(random->next())) / 16);
    scales.push_back(scale);
  }
  store_words();
}

double GroupedWeight::at(int64_t matrix, int64_t row, int64_t column) const {
  const auto group = static_cast<size_t>((matrix * (k / 128) + row / 128) * n + column);
  const int number = codes[static_cast<size_t>((matrix * k + row) * n + column)] - zeros[group];
  return number * load(scales.data(), LATHE_F16, static_cast<int64_t>(group));
}

void GroupedWeight::store_words() {
  constexpr int kAwqOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  const auto across = [&](const std::vector<int>& from, int64_t rows, int less, bool awq) {
    std::vector<uint32_t> words;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t word = 0; word < n / 8; ++word) {
        uint32_t bits = 0;
        for (int i = 0; i < 8; ++i) {
          const int64_t column = word * 8 + (awq ? kAwqOrder[i] : i);
          bits |= static_cast<uint32_t>(from[static_cast<size_t>(row * n + column)] - less) << (4 * i);
        }
        words.push_back(bits);
      }
    return words;
  };
  const bool awq = dtype == LATHE_U4_AWQ;
  qzeros = across(zeros, batch * (k / 128), dtype == LATHE_U4_GPTQ ? 1 : 0, awq);
  if (awq) {
    qweight = across(codes, batch * k, 0, true);
    return;
  }
  for (int64_t row = 0; row < batch * k; row += 8)
    for (int64_t column = 0; column < n; ++column) {
      uint32_t bits = 0;
      for (int64_t i = 0; i < 8; ++i)
        bits |= static_cast<uint32_t>(codes[static_cast<size_t>((row + i) * n + column)]) << (4 * i);
      qweight.push_back(bits);
    }
}

lathe_operand GroupedWeight::operand() const {
  lathe_operand o = LATHE_OPERAND_INIT;
  o.data = const_cast<uint32_t*>(qweight.data());
  o.dtype = dtype;
  o.batch_stride = k * n;
  if (!symmetric) o.zero_point = qzeros.data();
  return o;
}

lathe_scale GroupedWeight::scale() const {
  lathe_scale s = LATHE_SCALE_INIT;
  s.data = scales.data();
  s.dtype = LATHE_F16;
  s.granularity = LATHE_PER_BLOCK;
  s.block_size = 128;
  s.layout = LATHE_SCALES_BY_BLOCK;
  s.batch_stride = k / 128 * n;
  return s;
}

double calc_diff(const std::vector<double>& x, const std::vector<double>& y) {
  double xy = 0, squares = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += x[i] * y[i];
    squares += x[i] * x[i] + y[i] * y[i];
  }
  return squares == 0 ? 0 : 1 - 2 * xy / squares;
}

}  // namespace lathe::reference
