// Weights in a block format as kernels read them: converted to f32 exactly, or rounded once where a format adds a
// minimum.
#pragma once

#include "compiler/emit.h"
#include "kernels/matmul/emit_scales.h"

namespace lathe::emit {

// How the scale and the minimum of a group of elements are stored.
enum class BlockScales : int8_t {
  kF16,          // an f16 at byte 0
  kF16AndMin,    // f16 scale and minimum at bytes 0 and 2
  kPower,        // 2^(byte 0 - 128)
  kSixBits,      // f16 scale and minimum, then 6 bits of each for 8 groups of 32 (q4_k, q5_k)
  kBytes,        // 16 i8 for groups of 16 at byte 192, their f16 scale at byte 208 (q6_k)
  kSixBitsOf32,  // f16 scale at byte 0, then 6 bits for 8 groups of 32 (iq4_xs)
  kF16AndZero,   // an f16 at byte 0, and at byte 2 the code that stands for 0
  // In an array of their own (CPU: View::scales; GPUs: ScalePlaces):
  kApartF32,    // an f32
  kApartPower,  // 2^(a byte - 127), 255: NaN. With a table of doubled values 2^(the byte - 128)
  kApartF8      // two e4m3, for 16 elements each
};

// How the code of an element is stored.
enum class BlockCodes : int8_t {
  kHalves,  // as `group` says
  kPairs,   // elements 2 i and 2 i + 1 in the lower and upper half of byte i
  kE4M3,    // fp8, a byte for each
  kE5M2
};

// Where a block holds its codes, and what they mean. One row per format, in emit_blocks.cc.
struct BlockLayout {
  DType dtype;
  BlockScales scales;
  // Byte i of every group / 2 bytes holds the lower 4 bits of element i in its lower half, those of element
  // group / 2 + i in its upper half. 0: a byte per element, signed.
  int64_t group;
  int32_t zero = 0;               // the code that stands for 0
  const int8_t* table = nullptr;  // the 16 values of the codes, if they are not code - zero
  // Upper bits. `planes` elements share 32 bytes: element i has its `upper_bits` in byte i % 32, from bit
  // upper_bits * (i / 32) on. With 0 planes bit i of four bytes is the one of element i.
  int64_t upper_bits = 0, upper_first = 0, planes = 0;
  BlockCodes codes = BlockCodes::kHalves;

  int64_t first() const { return row_of(dtype).codes_at; }  // the byte of the first code
};
const BlockLayout& block_layout(DType t);

// Reads a view that is stored in blocks. Offsets in the view count elements.
class CpuBlocks {
 public:
  CpuBlocks(Emit& e, int64_t lanes, const View& v) : e_(e), lanes_(lanes), v_(v) {}

  static bool holds(const View& v) { return v.blocks != DType::kNone; }
  static int64_t elements(const View& v) { return block_elements(v.blocks); }
  static int64_t bytes(const View& v) { return static_cast<int64_t>(size_of(v.blocks)); }
  // The elements of the whole blocks in `count` bytes.
  static int64_t elements_in(const View& v, int64_t count) { return count / bytes(v) * elements(v); }

  // A vector of elements from `at` on. `at` is a multiple of the lanes.
  Value along_k(Value at) const;
  // The vectors of kPiece elements of the block that begins at element `at`, from element `inside` of it on.
  static constexpr int64_t kPiece = 32;
  Values piece(Value at, int64_t inside) const;
  // The first byte of the block that holds element `at`.
  Value byte_of(Value at) const;

 private:
  Emit& e_;
  int64_t lanes_;
  const View& v_;
};

// A line (row of A, column of B) of a GPU's operand in blocks: its first byte, and its first scale if scales are apart.
struct GpuBlockLine {
  Value byte, scales;
};
// The first byte of the block that holds an element, counted from a block that begins at `first_byte`.
Value byte_of_block(Emit& e, const View& v, Value first_byte, Value element);
// The line `i` (index) of an operand's part of a tile.
GpuBlockLine gpu_block_line(Emit& e, const View& v, const ScalePlaces& places, Value i);

// GPUs: the scale, an f32, of element `k` of the tile's K. Scales are apart, and those of f32 are aligned. `line`:
// ScalePlaces::of_line().
Value gpu_scale(Emit& e, const View& v, const ScalePlaces& places, Value line, Value k);

// Decodes blocks on a GPU, as CpuBlocks does on the CPU. A thread decodes runs of elements, and loads them long before.
// The formats are kGpuBlocks of products.h.
class GpuBlocks {
 public:
  static constexpr int64_t kRun = 4;

  // `alignment`: of the base and of the rows, in bytes.
  GpuBlocks(Emit& e, const View& v, const ScalePlaces& places, int64_t alignment)
      : e_(e), v_(v), places_(places), alignment_(alignment) {}

  GpuBlockLine line(Value i) const { return gpu_block_line(e_, v_, places_, i); }
  // Issues the loads of the run from element `k` (a multiple of kRun) of the tile's K on.
  Values load(const GpuBlockLine& line, Value k) const;
  // The elements of the run, as a vector of f32.
  Value decode(llvm::ArrayRef<Value> loaded, Value k) const;

  // What a decoder loads: it runs once to issue the loads, and again to use their values.
  struct Loads {
    int64_t alignment;
    Values values;
    bool done;  // the values are there
    size_t next;

    Value value(llvm::function_ref<Value()> load);
  };

 private:
  Value inside(Value k) const { return e_.rem(k, e_.idx(block_elements(v_.blocks))); }

  Emit& e_;
  const View& v_;
  ScalePlaces places_;
  int64_t alignment_;
};

}  // namespace lathe::emit
