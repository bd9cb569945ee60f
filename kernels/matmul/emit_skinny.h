// The family "skinny" (skinny_shape.h says how it works): what its parts share.
#pragma once

#include "kernels/matmul/emit_gpu.h"
#include "kernels/matmul/skinny_shape.h"

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

  // Of the products' sums: i32 of i8, f32 of everything else.
  Type sum() const { return view(1).element.isInteger() ? Type(e.b.getI32Type()) : e.f32(); }
  const View& view(unsigned operand) const {
    return p.views.find(p.contraction.getDpsInputs()[operand])->second;
  }
};

// How weights come from memory: one for each layout. A unit of them is kUnitRegisters i32 of a lane, four
// vectors of 16 bytes.
class SkinnyWeights {
 public:
  virtual ~SkinnyWeights() = default;
  // Starts copying to shared memory what cannot be loaded 16 bytes at a time.
  virtual void stage_tails() = 0;
  // Units from `unit` of group `group` on; none of them exists unless `valid`.
  virtual Values place(Value group, Value unit, Value valid) = 0;
  // The unit `ahead` (static) units behind the place: zeros where K or the tile's columns end, and for what
  // is staged.
  virtual Values load(const Values& place, int64_t ahead) = 0;
  // What load(place, ahead) gave, completed by what is staged.
  virtual Values complete(const Values& place, int64_t ahead, llvm::ArrayRef<Value> loaded) = 0;
};
std::unique_ptr<SkinnyWeights> make_skinny_weights(SkinnyTile& tile);

// How weights become sums: one for each layout and kind of arithmetic.
class SkinnyProducts {
 public:
  virtual ~SkinnyProducts() = default;
  virtual int64_t sums() const = 0;  // of a group in a lane
  // The lane's part of A's unit at `staged` (its address).
  virtual Values rows(Value staged) = 0;
  virtual void multiply(llvm::MutableArrayRef<Value> sums, llvm::ArrayRef<Value> weights,
                        llvm::ArrayRef<Value> rows) = 0;
  // Stores the warp's sums as a row-major matrix of `pitch` columns (of 4 bytes, a multiple of 4) at the address
  // `at` (16-byte aligned), its first column being the group's first; rows beyond `rows` are left out.
  virtual void store(llvm::ArrayRef<Value> sums, Value at, int64_t pitch, int64_t rows) = 0;
};
std::unique_ptr<SkinnyProducts> make_skinny_mma(SkinnyTile& tile);
std::unique_ptr<SkinnyProducts> make_skinny_fma(SkinnyTile& tile);

// `elements` (index or i32) behind `pointer`.
Value element_pointer(Emit& e, Value pointer, Value elements, Type element);
// The !llvm.ptr<3> of an address in shared memory.
Value shared_pointer(Emit& e, Value address);
Value add_sums(Emit& e, Value x, Value y);
// Added one by one from the first on.
Value add_in_order(Emit& e, llvm::ArrayRef<Value> parts);
// Loads, products and sums of the whole tile, which end in shared memory at sums_at, row by row, and are
// complete after a barrier.
void stream_weights(SkinnyTile& tile, SkinnyWeights& weights, SkinnyProducts& products);

}  // namespace lathe::emit
