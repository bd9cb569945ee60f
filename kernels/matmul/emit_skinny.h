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
};

// How weights become sums: one for each layout and kind of arithmetic.
class SkinnyForm {
 public:
  virtual ~SkinnyForm() = default;
  virtual int64_t sums() const = 0;  // f32 of a group in a lane
  // Starts copying what cannot be loaded 16 bytes at a time to shared memory.
  virtual void stage_tails() = 0;
  // Units from `unit` of group `group` on; none of them exists unless `valid`.
  virtual Values place(Value group, Value unit, Value valid) = 0;
  // The weights (kUnitRegisters i32) of the unit `ahead` (static) units behind the place: zeros where K or
  // the group's columns end.
  virtual Values load(const Values& place, int64_t ahead) = 0;
  // The lane's part of A's unit at `staged` (its address).
  virtual Values rows(Value staged) = 0;
  // Adds the products of the weights that load(place, ahead) gave and of A's rows.
  virtual void multiply(llvm::MutableArrayRef<Value> sums, const Values& place, int64_t ahead,
                        llvm::ArrayRef<Value> weights, llvm::ArrayRef<Value> rows) = 0;
  // Stores the warp's sums as a row-major matrix of `pitch` columns (f32) at the address `at`, its first
  // column being the group's first; rows beyond `rows` are left out.
  virtual void store(llvm::ArrayRef<Value> sums, Value at, int64_t pitch, int64_t rows) = 0;
};
std::unique_ptr<SkinnyForm> make_mma_form(SkinnyTile& tile);

// `elements` (index or i32) behind `pointer`.
Value element_pointer(Emit& e, Value pointer, Value elements, Type element);
// The !llvm.ptr<3> of an address in shared memory.
Value shared_pointer(Emit& e, Value address);
// Added one by one from the first on.
Value add_in_order(Emit& e, llvm::ArrayRef<Value> parts);
// Loads, products and sums of the whole tile, which end in shared memory at sums_at, row by row, and are
// complete after a barrier.
void stream_weights(SkinnyTile& tile, SkinnyForm& form);

}  // namespace lathe::emit
