#include "tests/gpu/emulator/ptx/wgmma_operand.h"

#include "tests/gpu/emulator/ptx/memory.h"
#include "tests/gpu/emulator/ptx/numbers.h"

namespace lathe::ptx {
namespace {

constexpr uint32_t kBytesOfK = 32, kChunk = 16;  // a chunk is the unit that a swizzle moves

struct Descriptor {
  uint32_t start, leading, stride, base_offset, span;  // bytes; span: of the swizzle, 16 without one
  bool swizzles() const { return span != kChunk; }
};

Descriptor decode(uint64_t bits) {
  static constexpr uint32_t kSpans[] = {kChunk, 128, 64, 32};
  const auto field = [&](int at) { return static_cast<uint32_t>(bits >> at & 0x3fff) << 4; };
  return {field(0), field(16), field(32), static_cast<uint32_t>(bits >> 49 & 7), kSpans[bits >> 62]};
}

// The address of a chunk of a K-major operand; `half` selects a half of K. Rows are one span apart, groups of eight
// rows one stride. Without a swizzle the halves are one leading dimension apart.
uint32_t k_major(const Descriptor& d, uint32_t row, uint32_t half) {
  return d.start + row / 8 * d.stride + row % 8 * d.span + half * (d.swizzles() ? kChunk : d.leading);
}

// The address of a chunk of a transposed operand: eight rows at one k. Consecutive k are one span apart. A span holds
// span / 16 chunks; spans are one leading dimension apart, groups of eight k one stride. Without a swizzle leading
// dimension and stride change roles.
uint32_t row_major(const Descriptor& d, uint32_t chunk, uint32_t k) {
  const uint32_t in_span = d.span / kChunk;
  const uint32_t far_rows = d.swizzles() ? d.leading : d.stride, far_k = d.swizzles() ? d.stride : d.leading;
  return d.start + chunk / in_span * far_rows + chunk % in_span * kChunk + k / 8 * far_k + k % 8 * d.span;
}

const uint8_t* chunk_at(Thread& t, const Instruction& i, const Descriptor& d, uint32_t address) {
  const uint32_t bits = d.span / kChunk - 1;
  const uint32_t place = address ^ ((((address >> 7) - d.base_offset) & bits) << 4);
  const uint8_t* bytes = shared_range(t, i, *t.block, place, kChunk);
  if (bytes == nullptr || !check_proxy(t, i, *t.block, place, kChunk, "wgmma")) return nullptr;
  return bytes;
}

uint32_t element(const uint8_t* bytes, uint32_t size, uint32_t index) {
  uint32_t bits = 0;
  std::memcpy(&bits, bytes + index * size, size);
  return bits;
}

}  // namespace

double operand_value(Type type, uint32_t bits) {
  switch (type) {
    case Type::f16: return f16_to_float(static_cast<uint16_t>(bits));
    case Type::bf16: return bf16_to_float(static_cast<uint16_t>(bits));
    case Type::tf32: return tf32_operand(bits);
    case Type::e4m3: return e4m3_to_float(static_cast<uint8_t>(bits));
    case Type::e5m2: return e5m2_to_float(static_cast<uint8_t>(bits));
    case Type::s8: return static_cast<int8_t>(bits);
    default: return static_cast<uint8_t>(bits);
  }
}

bool read_operand(Thread& t, const Instruction& i, uint64_t descriptor, Type type, uint32_t rows,
                  bool transposed, Matrix& matrix) {
  const Descriptor d = decode(descriptor);
  const uint32_t size = type_size(type), in_chunk = kChunk / size;
  matrix.resize(rows, kBytesOfK / size);
  if (!transposed) {
    for (uint32_t row = 0; row < rows; ++row) {
      for (uint32_t half = 0; half < 2; ++half) {
        const uint8_t* bytes = chunk_at(t, i, d, k_major(d, row, half));
        if (bytes == nullptr) return false;
        for (uint32_t e = 0; e < in_chunk; ++e)
          matrix.at(row, half * in_chunk + e) = operand_value(type, element(bytes, size, e));
      }
    }
    return true;
  }
  for (uint32_t k = 0; k < matrix.k; ++k) {
    for (uint32_t chunk = 0; chunk < rows / in_chunk; ++chunk) {
      const uint8_t* bytes = chunk_at(t, i, d, row_major(d, chunk, k));
      if (bytes == nullptr) return false;
      for (uint32_t e = 0; e < in_chunk; ++e)
        matrix.at(chunk * in_chunk + e, k) = operand_value(type, element(bytes, size, e));
    }
  }
  return true;
}

std::vector<double> multiply_transposed(const Matrix& a, const Matrix& b) {
  std::vector<double> columns(uint64_t{b.rows} * b.k), sums(uint64_t{a.rows} * b.rows, 0);
  for (uint32_t row = 0; row < b.rows; ++row) {
    for (uint32_t k = 0; k < b.k; ++k) columns[k * b.rows + row] = b.at(row, k);
  }
  for (uint32_t row = 0; row < a.rows; ++row) {
    double* sum = &sums[uint64_t{row} * b.rows];
    for (uint32_t k = 0; k < a.k; ++k) {
      const double factor = a.at(row, k);
      const double* right = &columns[k * b.rows];
      for (uint32_t n = 0; n < b.rows; ++n) sum[n] += factor * right[n];
    }
  }
  return sums;
}

}  // namespace lathe::ptx
