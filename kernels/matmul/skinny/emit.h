// What the parts of the "skinny" family share; skinny/shape.h explains how it works.
#pragma once

#include "kernels/matmul/emit_gpu.h"
#include "kernels/matmul/emit_scales.h"
#include "kernels/matmul/matrix_instruction.h"
#include "kernels/matmul/skinny/lane_product.h"
#include "kernels/matmul/skinny/shape.h"

namespace lathe::emit {

// The workgroup's tile and the thread's place in it. All values are i32 unless stated otherwise.
struct SkinnyTile {
  Emit& e;
  GpuKernel& kernel;
  TileProgram& p;
  SkinnyShape shape;
  Value a, b;            // global pointers to the tile's first elements
  Value depth, columns;  // of the tile
  Value thread, lane, warp_n, warp_k;
  Value shared;  // address of dynamic shared memory
  // AMD: how products are computed; one of the two is null.
  const MatrixInstruction* instruction = nullptr;
  const LaneProduct* lanes = nullptr;
  bool has_all_rows = true;  // every tile has shape.in.rows rows, which follow each other
  ScalePlaces scales_of_b;   // if B is in blocks whose scales are apart

  // Type of the sums: i32 for i8, f32 for everything else.
  Type sum() const { return view(0).element.isInteger() ? Type(e.b.getI32Type()) : e.f32(); }
  const View& view(unsigned operand) const {
    return p.views.find(p.contraction.getDpsInputs()[operand])->second;
  }

  // Operations that differ between the targets (emit_target.cc). These two access `count` (1, 2 or 4) f32 or
  // i32 in shared memory at the address `at` + `offset`, which is aligned to all of them.
  Values load_shared(Value at, int64_t offset, int64_t count) const;
  void store_shared(Value at, int64_t offset, ValueRange values) const;
  // `x` of the lane whose number differs in `bit`.
  Value exchange_lanes(Value x, int64_t bit) const;
  // A barrier for the compiler's scheduler: no load moves across it.
  void keep_order() const;
  // Barrier of the workgroup for shared memory only: loads from global memory stay in flight.
  void barrier() const;
};

// Loads weights from memory; one class per layout. A unit of them is four vectors of 16 bytes for each lane.
// On CUDA it is kUnitRegisters i32, on AMD kUnitVectors vectors and after them the lane's part of A.
class SkinnyWeights {
 public:
  virtual ~SkinnyWeights() = default;
  virtual int64_t values() const = 0;   // in a unit
  virtual int64_t weights() const = 0;  // how many of those are weights; they come first
  // CUDA: starts to copy to shared memory those weights that cannot be loaded 16 bytes at a time.
  virtual void stage_tails() {}
  // Where the lane's units lie, from unit `unit` of group `group` on. If not `valid`, all of them lie beyond K.
  virtual Values place(Value group, Value unit, Value valid) = 0;
  // Loads the unit that is `ahead` (a constant) units after `place`. Elements beyond K or the tile's columns, and those
  // that are staged, become zero.
  virtual Values load(const Values& place, int64_t ahead) = 0;
  // The result of load(place, ahead), completed with the staged elements.
  virtual Values complete(const Values& place, int64_t ahead, llvm::ArrayRef<Value> loaded) = 0;
};
std::unique_ptr<SkinnyWeights> make_skinny_weights(SkinnyTile& tile);  // CUDA
std::unique_ptr<SkinnyWeights> make_skinny_loads(SkinnyTile& tile);    // AMD
std::unique_ptr<SkinnyWeights> make_skinny_blocks(SkinnyTile& tile);   // both: B in quantised blocks

// Multiplies weights and adds to the sums; one class per layout and kind of arithmetic.
class SkinnyProducts {
 public:
  virtual ~SkinnyProducts() = default;
  virtual Values zeros() = 0;  // a group's sums in one lane
  // CUDA: the lane's part of A's unit at the address `staged`.
  virtual Values rows(Value) { return {}; }
  virtual void multiply(llvm::MutableArrayRef<Value> sums, llvm::ArrayRef<Value> weights,
                        llvm::ArrayRef<Value> rows) = 0;
  // Stores the warp's sums as a row-major matrix at the address `at` (16-byte aligned), with `pitch` columns
  // of 4 bytes (a multiple of 4). Its first column is the group's first. Rows beyond `rows` are skipped.
  virtual void store(llvm::ArrayRef<Value> sums, Value at, int64_t pitch, int64_t rows) = 0;
};
std::unique_ptr<SkinnyProducts> make_skinny_mma(SkinnyTile& tile);
std::unique_ptr<SkinnyProducts> make_skinny_fma(SkinnyTile& tile);
std::unique_ptr<SkinnyProducts> make_skinny_dot(SkinnyTile& tile);   // AMD
std::unique_ptr<SkinnyProducts> make_skinny_mfma(SkinnyTile& tile);  // AMD: MFMA, WMMA

// `pointer` plus `elements` (index or i32) elements.
Value element_pointer(Emit& e, Value pointer, Value elements, Type element);
// The first element of A's row `row` (i32 or index). In place of a row that the tile does not have, its last row.
Value row_of_a(const SkinnyTile& tile, Value row);
// The !llvm.ptr<3> of an address in shared memory.
Value shared_pointer(Emit& e, Value address);
// AMD: a call of the LLVM intrinsic `name`, which returns `type`.
Value call_amd(Emit& e, llvm::StringRef name, Type type, ValueRange operands);
Value add_sums(Emit& e, Value x, Value y);
// Adds `sums` over the lanes whose numbers differ in the bits from `high` down to `low`, and divides the
// totals among these lanes: each gets those from number `first` (i32) on. With fewer sums than lanes, some
// lanes get the same.
struct SharedOut {
  Values sums;
  Value first;
};
SharedOut share_out(const SkinnyTile& tile, llvm::ArrayRef<Value> sums, int64_t high, int64_t low = 1);
// Stores a lane's share of a matrix of `columns` columns, whose first element is at the address `at`.
void store_share(const SkinnyTile& tile, const SharedOut& share, int64_t columns, Value at, int64_t pitch);
// The sum of `parts`, added from the first to the last.
Value add_in_order(Emit& e, llvm::ArrayRef<Value> parts);
// Loads and multiplies the whole tile. The sums end in shared memory at sums_at, row by row, and are complete
// after a barrier.
void stream_weights(SkinnyTile& tile, SkinnyWeights& weights, SkinnyProducts& products);

}  // namespace lathe::emit
