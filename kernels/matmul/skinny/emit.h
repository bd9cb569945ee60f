// The family "skinny" (skinny_shape.h says how it works): what its parts share.
#pragma once

#include "kernels/matmul/emit_gpu.h"
#include "kernels/matmul/matrix_instruction.h"
#include "kernels/matmul/skinny/lane_product.h"
#include "kernels/matmul/skinny/shape.h"

namespace lathe::emit {

// What the emitters of the family's parts share: the workgroup's tile, and the thread's place in it. All i32
// unless said otherwise.
struct SkinnyTile {
  Emit& e;
  GpuKernel& kernel;
  TileProgram& p;
  SkinnyShape shape;
  Value a, b;            // pointers (global) to the tile's first elements
  Value depth, columns;  // of the tile
  Value thread, lane, warp_n, warp_k;
  Value shared;  // address of dynamic shared memory
  // AMD: what products are made of, one of the two.
  const MatrixInstruction* instruction = nullptr;
  const LaneProduct* lanes = nullptr;

  // Of the products' sums: i32 of i8, f32 of everything else.
  Type sum() const { return view(1).element.isInteger() ? Type(e.b.getI32Type()) : e.f32(); }
  const View& view(unsigned operand) const {
    return p.views.find(p.contraction.getDpsInputs()[operand])->second;
  }

  // What the targets name differently (emit_skinny_target.cc). `count` (1, 2, 4) f32 or i32 in shared memory
  // at the address `at` + `offset`, aligned to all of them.
  Values load_shared(Value at, int64_t offset, int64_t count) const;
  void store_shared(Value at, int64_t offset, ValueRange values) const;
  // The sum of the lane whose number differs in `bit`.
  Value exchange_lanes(Value x, int64_t bit) const;
  // What was emitted before stays before what comes after: loads where they are.
  void keep_order() const;
  // Of shared memory: all threads of the workgroup see what each stored before. Loads from global memory stay
  // under way.
  void barrier() const;
};

// How weights come from memory: one for each layout. A unit of them is four vectors of 16 bytes of a lane, on
// CUDA kUnitRegisters i32, on AMD kUnitVectors vectors of them and behind those the lane's part of A.
class SkinnyWeights {
 public:
  virtual ~SkinnyWeights() = default;
  virtual int64_t values() const = 0;   // of a unit
  virtual int64_t weights() const = 0;  // of those, the first
  // CUDA: starts copying to shared memory what cannot be loaded 16 bytes at a time.
  virtual void stage_tails() {}
  // Units from `unit` of group `group` on; none of them exists unless `valid`.
  virtual Values place(Value group, Value unit, Value valid) = 0;
  // The unit `ahead` (static) units behind the place: zeros where K or the tile's columns end, and for what
  // is staged.
  virtual Values load(const Values& place, int64_t ahead) = 0;
  // What load(place, ahead) gave, completed by what is staged.
  virtual Values complete(const Values& place, int64_t ahead, llvm::ArrayRef<Value> loaded) = 0;
};
std::unique_ptr<SkinnyWeights> make_skinny_weights(SkinnyTile& tile);  // CUDA
std::unique_ptr<SkinnyWeights> make_skinny_loads(SkinnyTile& tile);    // AMD

// How weights become sums: one for each layout and kind of arithmetic.
class SkinnyProducts {
 public:
  virtual ~SkinnyProducts() = default;
  virtual Values zeros() = 0;  // of a group in a lane
  // CUDA: the lane's part of A's unit at `staged` (its address).
  virtual Values rows(Value) { return {}; }
  virtual void multiply(llvm::MutableArrayRef<Value> sums, llvm::ArrayRef<Value> weights,
                        llvm::ArrayRef<Value> rows) = 0;
  // Stores the warp's sums as a row-major matrix of `pitch` columns (of 4 bytes, a multiple of 4) at the
  // address `at` (16-byte aligned), its first column being the group's first; rows beyond `rows` are left
  // out.
  virtual void store(llvm::ArrayRef<Value> sums, Value at, int64_t pitch, int64_t rows) = 0;
};
std::unique_ptr<SkinnyProducts> make_skinny_mma(SkinnyTile& tile);
std::unique_ptr<SkinnyProducts> make_skinny_fma(SkinnyTile& tile);
std::unique_ptr<SkinnyProducts> make_skinny_dot(SkinnyTile& tile);   // AMD
std::unique_ptr<SkinnyProducts> make_skinny_mfma(SkinnyTile& tile);  // AMD: MFMA, WMMA

// `elements` (index or i32) behind `pointer`.
Value element_pointer(Emit& e, Value pointer, Value elements, Type element);
// The !llvm.ptr<3> of an address in shared memory.
Value shared_pointer(Emit& e, Value address);
// AMD: LLVM's intrinsic of that name, the one overloaded type in it.
Value call_amd(Emit& e, llvm::StringRef name, Type type, ValueRange operands);
Value add_sums(Emit& e, Value x, Value y);
// Of the lanes whose numbers differ in bits from `high` down to `low`, each gets a share of the elements of
// `sums`, added up over all of them: those from the number `first` (i32) on. Where there are fewer sums than
// lanes some get the same.
struct SharedOut {
  Values sums;
  Value first;
};
SharedOut share_out(const SkinnyTile& tile, llvm::ArrayRef<Value> sums, int64_t high, int64_t low = 1);
// Stores such a share of a lane's sums, row by row `columns` each, the first of them at `at`.
void store_share(const SkinnyTile& tile, const SharedOut& share, int64_t columns, Value at, int64_t pitch);
// Added one by one from the first on.
Value add_in_order(Emit& e, llvm::ArrayRef<Value> parts);
// Loads, products and sums of the whole tile, which end in shared memory at sums_at, row by row, and are
// complete after a barrier.
void stream_weights(SkinnyTile& tile, SkinnyWeights& weights, SkinnyProducts& products);

}  // namespace lathe::emit
