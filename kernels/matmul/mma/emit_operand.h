// One operand of a warp-level matmul: its way from global memory into swizzled shared memory, and from there
// to a warp's registers.
#pragma once

#include <memory>

#include "compiler/gpu_kernel.h"
#include "kernels/matmul/mma/shape.h"

namespace lathe::emit {

// How an operand's part of a stage lies in shared memory: rows in chunks of 16 bytes, whose places within the
// row are exchanged by the row's number, so that neither the 8 rows of one chunk that ldmatrix reads nor the
// 8 chunks of one row that copies write meet in a bank.
struct SwizzledRows {
  int64_t rows, row_bytes;
  // Single f32 are read, of four rows and eight neighbours at a time, in place of ldmatrix.
  bool element_wise;

  static constexpr int64_t kPeriod = 8;  // rows after which the exchange repeats
  int64_t chunks() const { return row_bytes / 16; }
  // The place of a row's chunk is its number xor this (i32).
  Value exchange(Emit& e, Value row) const;
  // Offset in bytes of a row's chunk, all i32.
  Value at(Emit& e, Value row, Value chunk) const;
};

// The calling thread's warp, one of (tile_m / warp_m) x (tile_n / warp_n), columns innermost.
struct MmaWarp {
  MmaWarp(Emit& e, const GpuKernel& kernel, const MmaShape& shape);
  int64_t rows, columns;                    // of the warp's part of the tile
  int64_t fragment_rows, fragment_columns;  // in the instruction's D
  Value lane, place_row, place_column;      // i32: the lane, and the warp's place among the warps
  Value first_row, first_column;            // i32: of its part
};

struct MmaOperand {
  enum Side { kA, kB };
  Side side;
  View view;
  bool k_contiguous;         // in memory
  bool shared_k_contiguous;  // in shared memory; so lies everything but what is copied as it is in memory
  bool chunks;  // copied as chunks of 16 aligned bytes; on CUDA without passing through registers
  int64_t element_bytes;
  int64_t width, warp_width;      // rows of A (columns of B) of the workgroup's tile and of a warp's
  int64_t block;                  // K of a stage
  Value limit, depth;             // index: rows (columns) and K that exist
  bool whole_width, whole_depth;  // chunks of 16 bytes end with them
  bool whole_blocks;              // AMD: depth is a multiple of block, whatever the split
  SwizzledRows layout;
  int64_t place;  // in a stage, bytes
  MatrixInstruction instruction;

  static MmaOperand of(const MmaShape& shape, const TileProgram& p, Side side);
  int64_t chunk_elements() const { return 16 / element_bytes; }
  // Where whole_blocks, the block at `k0` or, beyond K, where it may hold anything, the last one.
  Value existing(Emit& e, Value k0) const { return e.min(k0, e.sub(depth, e.idx(block))); }
  // AMD: words (i32 or a vector of them) of elements as the instruction takes them.
  Value as_multiplied(Emit& e, Value words) const;
};

// The copies of one thread.
class MmaCopies {
 public:
  virtual ~MmaCopies() = default;
  // Slice `slice` of `slices` of the block of K that starts at `k0` (index) goes to the stage at `stage`
  // (bytes, i32): zero beyond K; nothing beyond the operand is read. Blocks wholly beyond K may be asked for.
  virtual void begin(Value k0, Value stage, int64_t slice, int64_t slices) = 0;
  // After all slices, before the workgroup's barrier.
  virtual void end(Value stage) = 0;
  // What is on its way through registers between begin and end, and the same as a loop has carried it along.
  virtual Values carried() const { return {}; }
  virtual void carry(llvm::ArrayRef<Value>) {}
};
// `shared`: the stages, an !llvm.ptr<3>.
std::unique_ptr<MmaCopies> make_copies(Emit& e, const GpuKernel& kernel, const MmaOperand& x, Value shared);
// AMD.
std::unique_ptr<MmaCopies> make_word_copies(Emit& e, const GpuKernel& kernel, const MmaOperand& x,
                                            Value shared);
std::unique_ptr<MmaCopies> make_chunk_copies(Emit& e, const GpuKernel& kernel, const MmaOperand& x,
                                             Value shared);

// One warp's registers.
class MmaFragments {
 public:
  virtual ~MmaFragments() = default;
  // For the instructions of step `step` (MatrixInstruction::step_bytes of K) of the stage at `stage`. CUDA:
  // four registers for 16 rows of A, two for 8 columns of B. AMD: one vector of read_bytes for each of A's
  // fragments of rows or B's of columns.
  virtual Values load(Value stage, int64_t step) = 0;
};
// `first`: where the warp's part of the width begins; `lane`: both i32.
std::unique_ptr<MmaFragments> make_fragments(Emit& e, const MmaOperand& x, Value shared, Value first,
                                             Value lane);
std::unique_ptr<MmaFragments> make_lane_fragments(Emit& e, const MmaOperand& x, Value shared, Value first,
                                                  Value lane);
// AMD: sums (a vector of MatrixInstruction::sums) and the products of two such vectors, summed.
Value multiply_lanes(Emit& e, const MatrixInstruction& instruction, Value a, Value b, Value sums);
// AMD: loads do not move down past here, nor anything else; LLVM would put them off to where they are waited
// for.
void pin_schedule(Emit& e);
// AMD: loads of elements between two such pins. LLVM makes the addresses of all loads before the first, pairs
// of scalars where a wave reads along a row, with their conditions: of 33 loads 6 to 26 scalars spilled on
// gfx1100, of 40 up to 29 on gfx90a with 270 vector registers in use (by 8: none, and 140).
constexpr size_t kLoadsTogether = 8;
// AMD: what was loaded before stays loaded before: InstCombine would turn operands that a loop carries along
// into loads at its head, where the products wait for them (measured: 8 reads and a wait for all of them).
void pin_loads(Emit& e);

Value exclusive_or(Emit& e, Value x, Value y);
Value exclusive_or(Emit& e, Value x, int64_t y);
// `pointer` (an !llvm.ptr<3>) and so many bytes.
Value shared_at(Emit& e, Value pointer, Value offset, int64_t constant = 0);

}  // namespace lathe::emit
