#include "tests/gpu/emulator/ptx/tcgen05_operand.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "tests/gpu/emulator/ptx/memory.h"
#include "tests/gpu/emulator/ptx/numbers.h"

namespace lathe::ptx {
namespace {

constexpr uint32_t kChunk = 16;  // bytes; the unit that a swizzle moves
constexpr uint32_t kE2M1 = 5;    // the number of 4-bit elements among those of mxf8f6f4

uint32_t bits_at(uint64_t word, int first, int count) {
  return static_cast<uint32_t>(word >> first & ((uint64_t{1} << count) - 1));
}

// E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6.
double e2m1_value(uint32_t code) {
  const uint32_t exponent = code >> 1 & 3, mantissa = code & 1;
  const double magnitude =
      exponent == 0 ? 0.5 * mantissa : std::ldexp(2 + mantissa, static_cast<int>(exponent) - 2);
  return (code & 8) != 0 ? -magnitude : magnitude;
}

}  // namespace

std::string decode_product_fields(uint32_t bits, BlockKind kind, uint32_t scales, ProductFields& fields) {
  const bool wide = kind == BlockKind::mxf8f6f4;
  if (bits_at(bits, 2, 1) != 0) return "sparse operands are not modelled";
  // Reserved bits; bit 31 is the size of K of the 4-bit kinds, where 1 is 96.
  for (const auto& [first, count] : {std::pair(0, 2), std::pair(3, 1), std::pair(6, 1), std::pair(24, 3),
                                     std::pair(31, 1), std::pair(wide ? 3 : 12, 1)})
    if (bits_at(bits, first, count) != 0) return absl::StrFormat("bit %d or a later one is reserved", first);
  if (bits_at(bits, 15, 2) != 0) return "operands along M or N are not modelled";
  if (bits_at(bits, 27, 2) != 1) return absl::StrFormat("M is %u, not 128", bits_at(bits, 27, 2) * 128);
  fields.a_type = bits_at(bits, 7, 3);
  fields.b_type = bits_at(bits, 10, wide ? 3 : 2);
  fields.n = bits_at(bits, 17, 6) * 8;
  fields.first_b = bits_at(bits, 4, 2);
  fields.first_a = bits_at(bits, 29, 2);
  fields.negate = bits_at(bits, 13, 1) != bits_at(bits, 14, 1);
  fields.powers_of_two = bits_at(bits, 23, 1) != 0;
  if (fields.n < 8 || fields.n > 256) return absl::StrFormat("N is %u", fields.n);
  for (const uint32_t type : {fields.a_type, fields.b_type})
    if (wide ? type > 1 && type != kE2M1 : type != 1)
      return absl::StrFormat("element type %u is not modelled", type);
  if (!fields.powers_of_two && scales != 4) return "scales of E4M3 need scale_vec::4X";
  for (const uint32_t first : {fields.first_a, fields.first_b})
    if (first % scales != 0) return absl::StrFormat("the first scale is number %u of 4", first);
  return std::string();
}

bool read_rows(Thread& t, const Instruction& i, uint64_t descriptor, uint32_t rows, uint32_t chunks,
               std::vector<uint8_t>& bytes) {
  const auto fail = [&](const std::string& why) {
    t.block->machine->fault(t, i, absl::StatusCode::kAborted, why);
    return false;
  };
  const uint32_t start = bits_at(descriptor, 0, 14) << 4, leading = bits_at(descriptor, 16, 14) << 4,
                 stride = bits_at(descriptor, 32, 14) << 4, mode = bits_at(descriptor, 61, 3);
  if (bits_at(descriptor, 46, 3) != 1) return fail("bits 46 to 48 of the matrix descriptor are not 0b001");
  if (bits_at(descriptor, 49, 3) != 0) return fail("a base offset is not modelled");
  if (bits_at(descriptor, 52, 9) != 0) return fail("bits 52 to 60 of the matrix descriptor are not 0");
  if (mode != 0 && mode != 2) return fail(absl::StrFormat("swizzle mode %u is not modelled", mode));
  const bool swizzled = mode == 2;
  // Groups of 8 rows are one stride apart. With the swizzle a row has 128 bytes and its chunks are adjacent. Without
  // one, 8 rows of a chunk are adjacent, and chunks are one leading dimension apart.
  bytes.resize(uint64_t{rows} * chunks * kChunk);
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      uint32_t address = start + row / 8 * stride +
                         (swizzled ? row % 8 * 128 + chunk * kChunk : row % 8 * kChunk + chunk * leading);
      if (swizzled) address ^= (address >> 7 & 7) << 4;
      const uint8_t* place = shared_range(t, i, *t.block, address, kChunk);
      if (place == nullptr || !check_proxy(t, i, *t.block, address, kChunk, "tcgen05")) return false;
      std::memcpy(&bytes[(uint64_t{row} * chunks + chunk) * kChunk], place, kChunk);
    }
  }
  return true;
}

uint32_t elements_in_row(BlockKind kind) { return kind == BlockKind::mxf8f6f4 ? 32 : 64; }

void decode_elements(BlockKind kind, uint32_t type, const uint8_t* bytes, double* values) {
  for (uint32_t k = 0; k < elements_in_row(kind); ++k) {
    const auto four_bits = [&](uint32_t at) {
      return e2m1_value(k % 2 == 0 ? bytes[at] & 15 : bytes[at] >> 4);
    };
    if (kind != BlockKind::mxf8f6f4)
      values[k] = four_bits(k / 2);
    else if (type == kE2M1)  // 16 elements are in the first half of 16 bytes
      values[k] = four_bits(k / 16 * 16 + k % 16 / 2);
    else
      values[k] = type == 0 ? e4m3_to_float(bytes[k]) : e5m2_to_float(bytes[k]);
  }
}

double scale_value(uint8_t bits, bool power_of_two) {
  if (power_of_two) return bits == 255 ? NAN : std::ldexp(1.0, bits - 127);
  return e4m3_to_float(bits & 127);
}

}  // namespace lathe::ptx
