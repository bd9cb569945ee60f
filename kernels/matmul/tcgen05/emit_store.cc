// Stores the sums from tensor memory to D. Each warp has 32 lanes of tensor memory, which are rows of D, and passes 32
// columns at a time through its patch of shared memory.
#include "kernels/matmul/emit_patch.h"
#include "kernels/matmul/tcgen05/emit.h"

namespace lathe::emit {

void Tcgen05Kernel::store() {
  constexpr int64_t kPatch = Tcgen05Shape::kPatch, kPitch = Tcgen05Shape::kPatchPitch;
  wait_barrier(e_, done(), e_.i32(0));
  fence_after_barrier(e_);
  Value row = e_.mul(warp_, kPatch);
  Value from = e_.add(memory_, e_.mul(row, int64_t{1} << 16));
  Value patch = e_.add(e_.add(shared_, shape_.patches_at()), e_.mul(warp_, Tcgen05Shape::kPatchBytes));
  Value own = e_.add(patch, e_.mul(lane_, 4 * kPitch));
  Value patches = e_.ceil_div(e_.to_i32(program_.columns), e_.i32(kPatch));
  e_.loop(e_.i32(0), patches, 1, [&](Value index) {
    Value column = e_.mul(index, kPatch);
    const Values sums = load_tensor_memory(e_, e_.add(from, column), kPatch);
    for (int64_t i = 0; i < kPatch; i += 4)
      store_shared(e_, own, 4 * i, mlir::ValueRange(llvm::ArrayRef<Value>(sums).slice(size_t(i), 4)));
    sync_warp(e_);
    store_patch(
        e_, program_, {kPatch, kPatch, kPitch, row, column, lane_, step_.is_grouped()},
        [&](Value offset, int64_t count) { return load_shared(e_, e_.add(patch, offset), 0, count); });
    sync_warp(e_);
  });
}

}  // namespace lathe::emit
