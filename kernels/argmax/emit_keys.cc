#include "kernels/argmax/emit_keys.h"

namespace lathe::emit {
using namespace mlir;

namespace {

constexpr unsigned kSharedMemory = 3;  // address space, the same on NVPTX and AMDGPU

Value select(Emit& e, Value c, Value x, Value y) { return arith::SelectOp::create(e.b, e.loc, c, x, y); }
Value exclusive_or(Emit& e, Value x, Value y) { return arith::XOrIOp::create(e.b, e.loc, x, y); }

}  // namespace

Value ordered(Emit& e, Value value) {
  // -0 + 0 is +0.
  Value x = arith::AddFOp::create(e.b, e.loc, value, e.constant_f32(0));
  Value bits = arith::BitcastOp::create(e.b, e.loc, e.b.getI32Type(), x);
  Value sign = arith::ShRSIOp::create(e.b, e.loc, bits, e.i32(31));
  Value key = exclusive_or(e, bits, arith::OrIOp::create(e.b, e.loc, sign, e.i32(INT32_MIN)));
  Value nan = arith::CmpFOp::create(e.b, e.loc, arith::CmpFPredicate::UNO, value, value);
  return select(e, nan, e.i32(-1), key);
}

Value pack(Emit& e, const Best& b) {
  Type i64 = e.b.getI64Type();
  Value high = arith::ExtUIOp::create(e.b, e.loc, i64, ordered(e, b.value));
  Value low = arith::ExtUIOp::create(e.b, e.loc, i64, exclusive_or(e, b.column, e.i32(-1)));
  return arith::OrIOp::create(e.b, e.loc, arith::ShLIOp::create(e.b, e.loc, high, e.constant(i64, 32)), low);
}

Best unpack(Emit& e, Value key) {
  Type i32 = e.b.getI32Type();
  Value shifted = arith::ShRUIOp::create(e.b, e.loc, key, e.constant(e.b.getI64Type(), 32));
  Value high = arith::TruncIOp::create(e.b, e.loc, i32, shifted);
  // The upper bit of a key is set if the value has no sign.
  Value negative = exclusive_or(e, arith::ShRSIOp::create(e.b, e.loc, high, e.i32(31)), e.i32(-1));
  Value bits = exclusive_or(e, high, arith::OrIOp::create(e.b, e.loc, negative, e.i32(INT32_MIN)));
  Value column = exclusive_or(e, arith::TruncIOp::create(e.b, e.loc, i32, key), e.i32(-1));
  return {arith::BitcastOp::create(e.b, e.loc, e.f32(), bits), column};
}

Value shared_pointer(Emit& e, Value memory, Value at) {
  Value base = memref::ExtractAlignedPointerAsIndexOp::create(e.b, e.loc, memory);
  Value address = arith::IndexCastOp::create(e.b, e.loc, e.b.getI64Type(), e.add(base, e.mul(at, 8)));
  return LLVM::IntToPtrOp::create(e.b, e.loc, LLVM::LLVMPointerType::get(e.b.getContext(), kSharedMemory),
                                  address);
}

void raise_shared(Emit& e, const GpuKernel& kernel, Value keys, Value at, Value key) {
  LLVM::AtomicRMWOp::create(e.b, e.loc, LLVM::AtomicBinOp::umax, shared_pointer(e, keys, at), key,
                            LLVM::AtomicOrdering::monotonic, kernel.workgroup_scope());
}

Value RowKeys::place(Value at, Type element) const {
  Value counters = arguments_.get("counters");
  Value offset = arith::IndexCastOp::create(e_.b, e_.loc, e_.b.getI64Type(), at);
  return LLVM::GEPOp::create(e_.b, e_.loc, counters.getType(), element, counters,
                             ArrayRef<LLVM::GEPArg>{offset});
}

void RowKeys::raise(Value row, Value key) const {
  kernel_.atomic(LLVM::AtomicBinOp::umax, place(row, e_.b.getI64Type()), key);
}

Value RowKeys::take(Value row) const {
  Type i64 = e_.b.getI64Type();
  return kernel_.atomic(LLVM::AtomicBinOp::xchg, place(row, i64), e_.constant(i64, 0));
}

Value RowKeys::ticket_counter(Value tile) const {
  return place(e_.add(e_.mul(arguments_.get("m"), 2), tile), e_.b.getI32Type());
}

}  // namespace lathe::emit
