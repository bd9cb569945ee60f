// Operands whose elements are stored apart from the scales of their blocks: fp8 and fp4 with one scale for a few elements
// of K. This file knows the formats and the layouts of scales, and decodes both on the host.
//
// A "line" is a row of A or a column of B; lines are K-contiguous. The CPU's kernels read B with "plain" scales: those of
// a line one after the other, parallel to the elements. prepare.* in dispatch rearranges all other layouts before a
// launch, and decodes A to f32. GPU kernels read both operands as they are stored.
#pragma once

#include <cstdint>
#include <string>

#include "base/dtype.h"

namespace lathe {

// A pair of elements and scales that Lathe multiplies.
struct ScaledFormat {
  DType element;
  DType scale;
  int64_t block;  // elements of K that share a scale
  DType blocks;   // of B in a kernel's class, on GPUs of A, too. Four of its blocks may have one stored scale
  bool takes_tall;  // a scale of B may belong to 128 columns
};
inline constexpr ScaledFormat kScaledFormats[] = {
    {DType::kF8E4M3, DType::kF32, 128, DType::kF8E4M3x128, true},
    {DType::kF8E4M3, DType::kF8E8M0, 128, DType::kMXF8E4M3, true},
    {DType::kF8E4M3, DType::kF8E8M0, 32, DType::kMXF8E4M3, false},
    {DType::kF8E5M2, DType::kF8E8M0, 32, DType::kMXF8E5M2, false},
    {DType::kF4E2M1, DType::kF8E8M0, 32, DType::kMXF4E2M1, false},
    {DType::kF4E2M1, DType::kF8E4M3, 16, DType::kNVF4E2M1, false}};
constexpr int64_t kTallLines = 128;  // lines of a scale of a 128 x 128 block

// The elements that share a scale in a kernel's class.
constexpr int64_t elements_of_scale(DType blocks) {
  return blocks == DType::kNVF4E2M1 ? 16 : block_elements(blocks);
}

// Null if there is no such format.
const ScaledFormat* find_scaled_format(DType element, DType scale, int64_t block);
// "f8e4m3 with f32 scales of 128, ...", for messages.
std::string scaled_format_names();

// The values equal those of lathe_scale_layout.
enum class ScaleLayout : int32_t { kByLine = 0, kByBlock = 1, kPackedByFour = 2, kTiled = 3 };

// Where a scale lies, in every layout: how many scales there are from one matrix, line and block to others. A block
// is elements_of_scale() of the class, so four of them may have one scale.
struct ScaleSteps {
  int64_t matrix = 0;
  int64_t line128 = 0, line32 = 0, line = 0;   // line l: l / 128, l / 32 % 4 and l % 32 times these
  int64_t block16 = 0, block4 = 0, block = 0;  // block b: b / 16, b / 4 % 4 and b % 4 times these
};

// The scales of a matrix, or of a batch, as the caller stores them.
struct StoredScales {
  const void* data = nullptr;
  const ScaledFormat* format = nullptr;
  ScaleLayout layout = ScaleLayout::kByLine;
  int64_t lines_each = 1;  // lines that share a scale
  int64_t blocks = 0;      // scales of a line
  int64_t leading =
      0;  // scales (kPackedByFour: words) from one line to the next, or from one block to the next
  int64_t stride = 0;  // the same from one matrix to the next
  const float* global = nullptr;

  int64_t blocks_each() const { return format->block / elements_of_scale(format->blocks); }  // of the class
  ScaleSteps steps() const;
  // The bytes from the first to past the last scale of `matrices` matrices of `lines` lines.
  int64_t span(int64_t lines, int64_t matrices) const;
  // Writes the scales of a line: `blocks` as f32, or as plain scales, one for each block of the class.
  void read_line(int64_t matrix, int64_t line, float* to) const;
  void read_plain(int64_t matrix, int64_t line, void* to) const;
};

// Elements as the caller stores them. Distances are in elements.
struct StoredElements {
  const char* data = nullptr;
  int64_t leading = 0, stride = 0;
};
struct ScaledOperand {
  StoredScales scales;
  StoredElements elements;

  bool exists() const { return scales.format != nullptr; }
};

// Bytes of `count` elements, an even number of them for f4e2m1.
constexpr int64_t scaled_bytes(DType element, int64_t count) {
  return element == DType::kF4E2M1 ? count / 2 : count;
}
// Decodes `k` elements, times their scales, to f32. A product with a scale is rounded once.
void decode_line(const StoredScales& scales, int64_t matrix, int64_t line, const void* elements, int64_t k,
                 float* to);

}  // namespace lathe
