// Weights in a block format as "bytes" multiplies them: unsigned bytes of four elements of K per lane, a column per
// lane, with a scale for each group of elements.
#pragma once

#include <algorithm>
#include <map>
#include <utility>

#include "kernels/matmul/cpu/emit.h"
#include "kernels/matmul/emit_blocks.h"

namespace lathe::emit {

// What "bytes" needs to know of a format. Sizes count elements.
struct ByteFormat {
  ByteFormat(DType t, bool vnni);

  static constexpr int64_t kGroup = 32;  // elements of K whose words are decoded together
  static constexpr int64_t kWords = kGroup / 4;

  const BlockLayout& layout;
  int64_t block, bytes;  // of a block
  int64_t scaled;        // elements that share a scale: 32 or 16
  bool has_minimum;
  // A is rounded in blocks of `block` elements, with f16 scales if they are 32.
  bool halves_a_scale() const { return block == kGroup; }
  int64_t groups() const { return block / kGroup; }
  // Groups whose codes share bytes.
  int64_t shared_groups() const { return std::max<int64_t>(1, layout.group / kGroup); }
  int64_t scales_of_group() const { return kGroup / scaled; }

  // Bytes are value + offset. Without VNNI two products are added in 16 bits, which may overflow if offset bytes are
  // large. `is_signed`: bytes are then the values themselves.
  int64_t offset = 0;
  bool is_signed = false;
  int64_t largest = 0;  // the largest magnitude of a byte
};

// The first byte of column j of an unpacked B, or of the last column if j is past it.
Value column_byte(Emit& e, const CpuTile& t, Value j);

// As many neighbouring columns of B as there are lanes.
struct BlockColumns {
  // From column j of the tile on, which is a multiple of the lanes.
  BlockColumns(Emit& e, const CpuTile& t, Value j);

  Values bytes;  // the first byte of each column; of a packed B, of the panel alone
  Value lane;    // of a packed B: the first column's place in the panel; else null
  // The distance from there to a block.
  Value distance(Emit& e, const ByteFormat& f, Value block) const;
};

// Prefetches the columns from j on while group number `group` of other columns is decoded. Each group prefetches a part
// of one column in turn. Of a packed panel it prefetches the same group of all columns; eight lanes, half of them.
void prefetch_group(Emit& e, const CpuTile& t, const ByteFormat& f, Value j, Value group);

// Decodes one block of as many neighbouring columns as there are lanes.
class ByteBlock : Lanes {
 public:
  ByteBlock(Emit& e, const CpuTile& t, const ByteFormat& f, const BlockColumns& columns, Value block)
      : Lanes{e, t.lanes},
        t(t),
        f(f),
        layout(f.layout),
        columns(columns),
        block(block),
        byte(columns.distance(e, f, block)),
        run(e.idx(0)) {}

  // For a loop over the groups of a block, which keeps the code short. keep() computes what all groups need and stores
  // these kept_vectors() vectors to the packing memory at `at`. in_loop() returns a ByteBlock that loads them, and
  // whose group 0 is group `run` of the block, a multiple of shared_groups().
  static int64_t kept_vectors(const ByteFormat& f);
  void keep(Value at);
  ByteBlock in_loop(Value run, Value at) const;

  // Loads what all groups need.
  void read_header();
  // The words of part `part` of group `g`: word w holds elements 4 w to 4 w + 3 of the part.
  Values words(int64_t g, int64_t part);
  // The scale of part `part` of group `g`, f32: of formats with several groups group_scale() * block_scale().
  Value scale(int64_t g, int64_t part);
  Value group_scale(int64_t g, int64_t part);  // i32
  Value block_scale();
  // The minimum of a format whose blocks have one, f32.
  Value minimum();
  // Formats with minima of 6 bits: the minima of groups 2 pair and 2 pair + 1 as two i16, and what multiplies them.
  Value minimum_pair(int64_t pair);
  Value minimum_scale();

 private:
  Value joined(Values parts);
  Value unpacked(Value x, Value y, int64_t bits, bool upper);
  // What a byte's place in the block counts from: the block, the codes of the run, the upper bits of the run.
  enum Base { kBlock, kCodes, kUpper };
  // Four words of each column from byte `at` on, transposed.
  const Values& raw(int64_t at, Base base = kBlock);
  // A packed B keeps the bytes before its words of codes apart, and those after (core/packed.h).
  bool is_apart(int64_t at) const;
  // Bytes of a column from the codes or upper bits of a group to those of the next run, per group of the run.
  int64_t run_step(Base base) const;
  Value packed(int64_t at, mlir::Type element, Value before) const;
  Value half_at(int64_t at);
  bool keeps_upper() const { return layout.planes == f.block; }
  Value half(Value words, int64_t at);
  Value block_bits();
  Value upper_bits(int64_t g, int64_t w);
  Value bit_of_each(Value bits, int64_t w);
  Value looked_up(Value words);
  Value six_bits(bool minima, int64_t quarter);

  const CpuTile& t;
  const ByteFormat& f;
  const BlockLayout& layout;
  const BlockColumns& columns;
  Value block, byte, run;
  Value kept;  // in a loop: where keep() stored to
  // Kept, because the fences of "bytes" keep LLVM from sharing them.
  std::map<std::pair<Base, int64_t>, Values> raws;
  std::map<int64_t, Value> sixes;
  Value scale_of_block, bits_of_block;
};

}  // namespace lathe::emit
