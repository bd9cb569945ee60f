// Operations of the "skinny" kernels that differ between CUDA and AMD.
#include "compiler/ptx_hopper.h"
#include "compiler/ptx_stream.h"
#include "kernels/matmul/mma/emit_operand.h"
#include "kernels/matmul/skinny/emit.h"

namespace lathe::emit {
using namespace mlir;

Values SkinnyTile::load_shared(Value at, int64_t offset, int64_t count) const {
  if (!kernel.rocm()) return emit::load_shared(e, at, offset, count, sum());
  Value vector =
      LLVM::LoadOp::create(e.b, e.loc, e.vec(count, sum()), shared_pointer(e, e.add(at, offset)), 4 * count);
  Values all;
  for (int64_t i = 0; i < count; ++i)
    all.push_back(LLVM::ExtractElementOp::create(e.b, e.loc, vector, e.i32(i)));
  return all;
}

void SkinnyTile::store_shared(Value at, int64_t offset, ValueRange values) const {
  if (!kernel.rocm()) return emit::store_shared(e, at, offset, values);
  const int64_t count = values.size();
  Value vector = LLVM::PoisonOp::create(e.b, e.loc, e.vec(count, values[0].getType()));
  for (int64_t i = 0; i < count; ++i)
    vector = LLVM::InsertElementOp::create(e.b, e.loc, vector, values[i], e.i32(i));
  LLVM::StoreOp::create(e.b, e.loc, vector, shared_pointer(e, e.add(at, offset)), 4 * count);
}

Value SkinnyTile::exchange_lanes(Value x, int64_t bit) const {
  if (!kernel.rocm()) return emit::exchange_lanes(e, x, bit);
  Type i32 = e.b.getI32Type();
  Value other = e.mul(exclusive_or(e, lane, bit), 4);
  Value bits = LLVM::BitcastOp::create(e.b, e.loc, i32, x);
  Value moved = call_amd(e, "llvm.amdgcn.ds.bpermute", i32, {other, bits});
  return LLVM::BitcastOp::create(e.b, e.loc, x.getType(), moved);
}

Value call_amd(Emit& e, StringRef name, Type type, ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(e.b, e.loc, type, e.b.getStringAttr(name), operands).getResult(0);
}

void SkinnyTile::keep_order() const {
  if (kernel.rocm())
    pin_schedule(e);
  else
    sync_warp(e);
}

// Like gpu.barrier, but with fences for shared memory only: on gfx11 and gfx12 full fences wait for every load.
void SkinnyTile::barrier() const {
  if (!kernel.rocm()) return kernel.barrier();
  const auto fence = [&](LLVM::AtomicOrdering ordering) {
    auto op = LLVM::FenceOp::create(e.b, e.loc, ordering, kernel.workgroup_scope());
    op->setAttr(LLVM::LLVMDialect::getMmraAttrName(),
                LLVM::MMRATagAttr::get(e.b.getContext(), "amdgpu-synchronize-as", "local"));
  };
  fence(LLVM::AtomicOrdering::release);
  LLVM::CallIntrinsicOp::create(e.b, e.loc, e.b.getStringAttr("llvm.amdgcn.s.barrier"), ValueRange());
  fence(LLVM::AtomicOrdering::acquire);
}

}  // namespace lathe::emit
