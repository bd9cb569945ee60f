// One operand of a warp-level matmul: copied from global to swizzled shared memory, and loaded from there
// into a warp's registers.
#pragma once

#include <algorithm>
#include <memory>

#include "compiler/gpu_kernel.h"
#include "kernels/matmul/emit_scales.h"
#include "kernels/matmul/mma/shape.h"

namespace lathe::emit {

// Layout of an operand's part of a stage in shared memory: rows of 16-byte chunks. A chunk's position in its
// row is XORed with bits of the row number, so that neither ldmatrix (the same chunk of 8 rows) nor the
// copies (8 chunks of one row) have bank conflicts.
struct SwizzledRows {
  int64_t rows, row_bytes;
  // f32 that is not K-contiguous: lanes load single elements, four rows by eight columns at a time, not by
  // ldmatrix.
  bool element_wise;

  static constexpr int64_t kPeriod = 8;  // rows after which the swizzle repeats
  int64_t chunks() const { return row_bytes / 16; }
  // The value (i32) with which the chunk numbers of a row are XORed.
  Value exchange(Emit& e, Value row) const;
  // Byte offset of a row's chunk; all i32.
  Value at(Emit& e, Value row, Value chunk) const;
};

// The calling thread's warp. Warps form a grid of (tile_m / warp_m) x (tile_n / warp_n), columns innermost.
struct MmaWarp {
  MmaWarp(Emit& e, const GpuKernel& kernel, const MmaShape& shape);
  int64_t rows, columns;                    // size of the warp's part of the tile
  int64_t fragment_rows, fragment_columns;  // size of that part in fragments
  Value lane, place_row, place_column;      // i32: the lane, and the warp's position in the grid
  Value first_row, first_column;            // i32: where the warp's part begins
};

struct MmaOperand {
  enum Side { kA, kB };
  Side side;
  View view;
  bool k_contiguous;         // in global memory
  bool shared_k_contiguous;  // in shared memory; false only for chunks copied in the order of global memory
  bool chunks;               // read as aligned chunks of 16 bytes; on CUDA with cp.async
  int64_t element_bytes;
  int64_t width, warp_width;      // rows of A (columns of B) in the workgroup's and in a warp's tile
  int64_t block;                  // K of a stage
  Value limit, depth;             // index: how many rows (columns) and how much of K exist
  bool whole_width, whole_depth;  // the width (K) is a multiple of a chunk
  bool whole_blocks;              // AMD: K of every split is a multiple of block
  SwizzledRows layout;
  int64_t place;  // byte offset in a stage
  MatrixInstruction instruction;
  // In quantised blocks whose sums are scaled: elements that share a scale (0: no such blocks), and f32 for each of
  // them. In all blocks: the byte offset of the scales in a stage, the element type of decoded codes, and where scales
  // apart lie.
  int64_t scaled = 0, scale_words = 0, scales_place = 0;
  Type code;
  ScalePlaces scales;

  static MmaOperand of(Emit& e, const GpuStep& step, const MmaShape& shape, const TileProgram& p, Side side);
  int64_t chunk_elements() const { return 16 / element_bytes; }
  // If the instruction applies the scales: of this many of a wave's fragments they are adjacent, and a lane reads them
  // as a word. An instruction names the byte of the word.
  int64_t scales_together() const { return std::min<int64_t>(warp_width / instruction.rows, 4); }
  // For whole_blocks: the start of the block at `k0`; of the last block if `k0` lies beyond K, where any data
  // will do.
  Value existing(Emit& e, Value k0) const { return e.min(k0, e.sub(depth, e.idx(block))); }
  // AMD: converts words (i32 or a vector of them) of elements to what the instruction multiplies.
  Value as_multiplied(Emit& e, Value words) const;
};

// One thread's copies of an operand.
class MmaCopies {
 public:
  virtual ~MmaCopies() = default;
  // Starts to copy slice `slice` of `slices` of the K block at `k0` (index) to the stage at byte offset
  // `stage` (i32). Elements beyond K become zero; nothing outside the operand is read. The block may lie
  // wholly beyond K.
  virtual void begin(Value k0, Value stage, int64_t slice, int64_t slices) = 0;
  // Call after all slices and before the workgroup's barrier.
  virtual void end(Value stage) = 0;
  // Values in flight in registers between begin and end, and how to set them from loop-carried values.
  virtual Values carried() const { return {}; }
  virtual void carry(llvm::ArrayRef<Value>) {}
};
// `shared`: the stages, an !llvm.ptr<3>.
std::unique_ptr<MmaCopies> make_copies(Emit& e, const GpuKernel& kernel, const MmaOperand& x, Value shared);
// Quantised blocks (emit_blocks.cc). end() stores what the last begin() loaded, wherever that was called.
std::unique_ptr<MmaCopies> make_block_copies(Emit& e, const GpuKernel& kernel, const MmaOperand& x,
                                             Value shared);
// Blocks whose codes the instruction multiplies as they are stored (emit_scaled.cc).
std::unique_ptr<MmaCopies> make_scaled_copies(Emit& e, const GpuKernel& kernel, const MmaOperand& x,
                                              Value shared);
// The variants for AMD.
std::unique_ptr<MmaCopies> make_word_copies(Emit& e, const GpuKernel& kernel, const MmaOperand& x,
                                            Value shared);
std::unique_ptr<MmaCopies> make_chunk_copies(Emit& e, const GpuKernel& kernel, const MmaOperand& x,
                                             Value shared);

// Loads one warp's fragments.
class MmaFragments {
 public:
  virtual ~MmaFragments() = default;
  // The registers for step `step` (MatrixInstruction::step_bytes of K) of the stage at `stage`. CUDA: four
  // registers for 16 rows of A, two for 8 columns of B. AMD: one vector of read_bytes for each fragment.
  virtual Values load(Value stage, int64_t step) = 0;
};
// Loads the scales of one group of K (step) for the columns of which the lane has sums. CUDA: for the two columns of
// every 8 a scale, and if the format has it a minimum, for one column and then for the other. AMD: for each fragment a
// vector of scales like its sums, and if the format has them, a vector of minima.
std::unique_ptr<MmaFragments> make_block_scales(Emit& e, const MmaOperand& b, Value shared,
                                                const MmaWarp& warp);
// A in blocks: the same for the rows of which the lane has sums, a scale for each. CUDA: two of every 16. AMD: one of
// each fragment.
std::unique_ptr<MmaFragments> make_row_scales(Emit& e, const MmaOperand& a, Value shared,
                                              const MmaWarp& warp);
// `first`: where the warp's part of the width begins. `first` and `lane` are i32.
std::unique_ptr<MmaFragments> make_fragments(Emit& e, const MmaOperand& x, Value shared, Value first,
                                             Value lane);
std::unique_ptr<MmaFragments> make_lane_fragments(Emit& e, const MmaOperand& x, Value shared, Value first,
                                                  Value lane);
// Blocks whose scales the instruction applies: words (i32) with the scales of the lane's block of K, up to four of them
// in a word, which belong to as many fragments.
std::unique_ptr<MmaFragments> make_scale_bytes(Emit& e, const MmaOperand& x, Value shared, Value first,
                                               Value lane);
// A wave's fragments of such an operand in a step.
class ScaledFragments {
 public:
  ScaledFragments(const MmaOperand& x, llvm::ArrayRef<Value> codes, llvm::ArrayRef<Value> scales)
      : format_(scaled_format_number(x.view.blocks)),
        together_(x.scales_together()),
        codes_(codes),
        scales_(scales) {}
  int32_t format() const { return format_; }
  Value codes(int64_t i) const { return codes_[static_cast<size_t>(i)]; }
  // The word that holds the scales of fragment `i`, and the byte in it.
  Value scale(int64_t i) const { return scales_[static_cast<size_t>(i / together_)]; }
  int64_t byte(int64_t i) const { return i % together_; }

 private:
  int32_t format_;
  int64_t together_;
  llvm::ArrayRef<Value> codes_, scales_;
};
// Adds the products of fragment `i` of A and fragment `j` of B, with their scales, to `sums`.
Value multiply_scaled_lanes(Emit& e, const MatrixInstruction& instruction, const ScaledFragments& a,
                            int64_t i, const ScaledFragments& b, int64_t j, Value sums);
// AMD: adds the products of `a` and `b` to `sums`, a vector of MatrixInstruction::sums values.
Value multiply_lanes(Emit& e, const MatrixInstruction& instruction, Value a, Value b, Value sums);
// AMD: a barrier for LLVM's scheduler, which would otherwise move loads down to their first use.
void pin_schedule(Emit& e);
// AMD: element loads between two pin_schedule. LLVM computes the addresses and conditions of all loads before
// the first; with dozens of loads they spill scalar registers on gfx1100 and gfx90a.
constexpr size_t kLoadsTogether = 8;
// AMD: keeps earlier loads before this point. InstCombine would turn loop-carried operands into loads at the
// head of the loop, where the products would wait for them.
void pin_loads(Emit& e);

Value exclusive_or(Emit& e, Value x, Value y);
Value exclusive_or(Emit& e, Value x, int64_t y);
// `pointer` (an !llvm.ptr<3>) plus `offset` plus `constant`, in bytes.
Value shared_at(Emit& e, Value pointer, Value offset, int64_t constant = 0);

}  // namespace lathe::emit
