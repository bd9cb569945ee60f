// The block formats of GGUF files on the host: decoding, and blocks with chosen content for tests. The structs are those
// of ggml's ggml-common.h, the formulas those of its dequantize_row_* in ggml-quants.c.
#pragma once

#include <lathe/lathe.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lathe::reference {

// The two terms of an element, each exact in f32. Its value is their sum, rounded to f32; infinite scales and minima
// follow IEEE 754.
struct BlockParts {
  float product;  // the scale of the element's group by its number
  float minimum;  // -0 in formats without minima
};

// A format that stores elements in blocks along K. An element has a code of a few bits; its group of elements has a
// scale, and in some formats a minimum.
struct BlockFormat {
  lathe_dtype dtype;
  const char* name;
  size_t bytes;         // of a block
  int64_t elements;     // of a block
  int64_t codes;        // codes are 0 to codes - 1
  bool halves_a_scale;  // INT8 rounds the scales of A to f16, and scales 32 elements; else 256, and keeps f32
  // Element `inside` of a block: its terms, and storing its code.
  BlockParts (*split)(const uint8_t* block, int64_t inside);
  void (*store)(uint8_t* block, int64_t inside, int64_t code);
  // Sets everything else of a block: its scale to `scale`, and the rest from random `bits`. With `whole`, values are
  // small integers times `scale`; otherwise they have about the size of `scale` by 8.
  void (*store_scales)(uint8_t* block, double scale, uint64_t bits, bool whole);

  float load(const uint8_t* block, int64_t inside) const {
    const BlockParts parts = split(block, inside);
    return parts.product + parts.minimum;
  }
};
const std::vector<BlockFormat>& block_formats();
const BlockFormat* block_format(lathe_dtype dtype);  // null: not a block format

}  // namespace lathe::reference
