#include "reference/operand.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace lathe::reference {
namespace {

// Bytes of poison before the first and after the last element: more than the width of any workgroup's tile.
constexpr size_t kBand = 1024;

// i8 is uniform. In wider integers all numbers of significant bits are equally likely, and one number in four is near
// an end of the range instead of near zero. So some sums and products wrap around, and some comparisons are between
// neighbours.
int64_t random_integer(lathe_dtype dtype, Normal* random) {
  const uint64_t bits = random->bits();
  if (dtype == LATHE_I8) return static_cast<int64_t>(bits & 0xff);
  const int64_t width = dtype == LATHE_I32 ? 32 : 64;
  const int64_t near_zero = static_cast<int64_t>(bits) >> (64 - width + random->below(width));
  return random->below(4) == 0 ? near_zero ^ (INT64_MAX >> (64 - width)) : near_zero;
}

}  // namespace

const std::vector<std::string>& fill_names() {
  static const std::vector<std::string> names = {"normal", "integers", "special"};
  return names;
}

double image_bytes(const OperandSpec& spec) {
  if (!spec.exists()) return 0;
  // Computed in floating point, so that sizes far above any memory do not overflow.
  const auto padding = static_cast<double>(spec.padding), lines = static_cast<double>(spec.lines()),
             length = static_cast<double>(spec.line_length()) + padding;
  const double elements = static_cast<double>(spec.matrices()) * (lines * length + padding);
  return elements * bytes_of(spec.dtype) / static_cast<double>(block_elements(spec.dtype)) + 2 * kBand;
}

lathe_operand describe(const OperandSpec& spec, void* data) {
  lathe_operand o = LATHE_OPERAND_INIT;
  if (!spec.exists()) return o;
  o.data = data;
  o.dtype = spec.dtype;
  o.layout = spec.transposed ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
  o.leading_dimension = spec.leading_dimension();
  o.batch_stride = spec.batch_stride();
  return o;
}

Operand::Operand(const OperandSpec& spec) : spec_(spec), offset_(kBand + spec.misalign) {
  const bool empty = spec.matrices() == 0 || spec.rows == 0 || spec.columns == 0;
  const int64_t span = empty ? 0
                             : (spec.matrices() - 1) * spec.batch_stride() +
                                   (spec.lines() - 1) * spec.leading_dimension() + spec.line_length();
  const size_t bytes = static_cast<size_t>(span / block_elements(spec.dtype)) * bytes_of(spec.dtype);
  image_.assign(offset_ + bytes + kBand, poison_of(spec.dtype));
}

// Scales are N(0, 1) / 8, so that weights have about the size of those in other dtypes. With kIntegers values are small
// integers.
void Operand::fill_blocks(Fill fill, Normal* random) {
  uint8_t* first = image_.data() + offset_;
  const BlockFormat& f = *block_format(spec_.dtype);
  const int64_t block = f.elements, blocks = spec_.line_length() / block;
  for (int64_t matrix = 0; matrix < spec_.matrices(); ++matrix) {
    for (int64_t line = 0; line < spec_.lines(); ++line) {
      const int64_t start = matrix * spec_.batch_stride() + line * spec_.leading_dimension();
      for (int64_t at = start; at < start + blocks * block; at += block) {
        const bool whole = fill == Fill::kIntegers;
        store_scales(first, f.dtype, at, whole ? 1 : random->next() / 8, random->bits(), whole);
        for (int64_t i = at; i < at + block; ++i)
          store(first, spec_.dtype, i, static_cast<double>(random->below(f.codes)));
      }
    }
    if (fill != Fill::kSpecial || spec_.lines() == 0 || blocks == 0) continue;
    constexpr double kSpecial[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0};
    const int64_t line = random->below(spec_.lines()) * spec_.leading_dimension();
    store_scales(first, f.dtype, matrix * spec_.batch_stride() + line + random->below(blocks) * block,
                 kSpecial[random->below(5)], random->bits(), false);
  }
}

float Operand::block_magnitude(int64_t batch, int64_t row, int64_t column) const {
  const BlockFormat& f = *block_format(spec_.dtype);
  const int64_t at = index(batch, row, column);
  const BlockParts parts =
      f.split(first() + at / f.elements * static_cast<int64_t>(f.bytes), at % f.elements);
  return std::fabs(parts.product) + std::fabs(parts.minimum);
}

void Operand::copy(int64_t batch, int64_t row, int64_t column, const uint8_t* array, int64_t from) {
  const auto size = static_cast<int64_t>(bytes_of(spec_.dtype));
  std::copy_n(array + from * size, size, image_.data() + offset_ + index(batch, row, column) * size);
}

void Operand::fill(Fill fill, Normal* random) {
  if (block_elements(spec_.dtype) > 1) return fill_blocks(fill, random);
  const bool integers = is_integer(spec_.dtype);
  const auto draw = [&](int64_t i) {
    uint8_t* first = image_.data() + offset_;
    if (fill == Fill::kIntegers)
      return store(first, spec_.dtype, i, static_cast<double>(random->below(9) - 4));
    if (!integers) return store(first, spec_.dtype, i, random->next());
    store_integer(first, spec_.dtype, i, random_integer(spec_.dtype, random));
  };
  for (int64_t matrix = 0; matrix < spec_.matrices(); ++matrix) {
    for (int64_t line = 0; line < spec_.lines(); ++line) {
      const int64_t start = matrix * spec_.batch_stride() + line * spec_.leading_dimension();
      for (int64_t i = start; i < start + spec_.line_length(); ++i) draw(i);
    }
    if (fill != Fill::kSpecial || integers || spec_.rows == 0 || spec_.columns == 0) continue;
    constexpr double kSpecial[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0};
    for (int i = 0; i < 2; ++i) {
      const int64_t row = random->below(spec_.rows), column = random->below(spec_.columns);
      set(matrix, row, column, kSpecial[random->below(5)]);
    }
  }
}

int64_t Operand::unwritten() const {
  const size_t size = bytes_of(spec_.dtype);
  const uint8_t poison = poison_of(spec_.dtype);
  int64_t count = 0;
  for (int64_t batch = 0; batch < spec_.matrices(); ++batch) {
    for (int64_t row = 0; row < spec_.rows; ++row) {
      for (int64_t column = 0; column < spec_.columns; ++column) {
        const uint8_t* element = first() + index(batch, row, column) * static_cast<int64_t>(size);
        count += std::all_of(element, element + size, [&](uint8_t byte) { return byte == poison; });
      }
    }
  }
  return count;
}

std::string Operand::stray_write() const {
  const auto size = static_cast<int64_t>(bytes_of(spec_.dtype));
  const uint8_t poison = poison_of(spec_.dtype);
  size_t clean = 0;  // the bytes before this one are checked, or are elements
  const auto find = [&](size_t until) -> const uint8_t* {
    for (; clean < until; ++clean)
      if (image_[clean] != poison) return image_.data() + clean;
    return nullptr;
  };
  const auto said = [&](const uint8_t* at) {
    return absl::StrFormat("byte %d from the first element was written, but is not part of an element",
                           at - first());
  };
  for (int64_t matrix = 0; matrix < spec_.matrices() && spec_.line_length() > 0; ++matrix) {
    for (int64_t line = 0; line < spec_.lines(); ++line) {
      const int64_t start = (matrix * spec_.batch_stride() + line * spec_.leading_dimension()) * size;
      if (const uint8_t* at = find(offset_ + static_cast<size_t>(start))) return said(at);
      clean = offset_ + static_cast<size_t>(start + spec_.line_length() * size);
    }
  }
  const uint8_t* at = find(image_.size());
  return at ? said(at) : "";
}

std::string Operand::row_bytes(int64_t batch, int64_t rows) const {
  std::string bytes;
  const auto size = static_cast<int64_t>(bytes_of(spec_.dtype));
  for (int64_t row = 0; row < rows; ++row) {
    const uint8_t* start = first() + index(batch, row, 0) * size;
    bytes.append(reinterpret_cast<const char*>(start), static_cast<size_t>(spec_.columns * size));
  }
  return bytes;
}

}  // namespace lathe::reference
