#include "kernels/matmul/cpu/emit_blocks.h"

#include "base/dtype.h"

namespace lathe::emit {
using namespace mlir;

namespace {

constexpr int64_t kHalf = kQ4Elements / 2;  // elements in half a block; the halves share their bytes
constexpr int64_t kZmmLanes = 16;
static_assert(kZmmLanes == kHalf, "a vector's lanes are the sixteen numbers of 4 bits");

Value all(Emit& e, int64_t lanes, int32_t word) {
  Attribute value = e.b.getI32IntegerAttr(word);
  return arith::ConstantOp::create(e.b, e.loc, SplatElementsAttr::get(e.vec(lanes, e.b.getI32Type()), value));
}

}  // namespace

int64_t CpuBlocks::vectors() const { return kQ4Elements / lanes_; }

Value CpuBlocks::byte_of(Value at) const {
  return e_.mul(e_.div(at, e_.idx(kQ4Elements)), static_cast<int64_t>(size_of(DType::kQ4_0)));
}

// Broadcast before widening: two instructions on x86, where a scalar takes four.
Value CpuBlocks::scale_at(const View& v, Value byte) const {
  Value pointer = pointer_to(e_, v.memory, byte);
  Value scale = LLVM::LoadOp::create(e_.b, e_.loc, e_.b.getF16Type(), pointer, /*alignment=*/1);
  return e_.to_f32(e_.broadcast(scale, lanes_));
}
Value CpuBlocks::bytes_at(const View& v, Value byte) const {
  return arith::ExtUIOp::create(e_.b, e_.loc, e_.vec(lanes_, e_.b.getI32Type()),
                                e_.load_vector(v.memory, byte, lanes_));
}
Value CpuBlocks::shifted(Value words, Value bits) const {
  return arith::ShRUIOp::create(e_.b, e_.loc, words, bits);
}

// scale * (q - 8) of the lower 4 bits of each word. The mantissa needs 15 bits, so nothing is rounded. With
// 16 lanes a register holds the 16 possible products, and a permutation looks them up by those bits.
//
// Widening four blocks of a column in one vector, with one FMA for four scales, was no faster: shifts and
// permutations share two execution units.
Value CpuBlocks::numbers(Value words, Value scale) const {
  if (lanes_ == kZmmLanes) {
    SmallVector<float> values;
    for (int q = 0; q < 16; ++q) values.push_back(static_cast<float>(q - 8));
    auto type = e_.vec(lanes_, e_.f32());
    Value table =
        arith::ConstantOp::create(e_.b, e_.loc, DenseElementsAttr::get(type, llvm::ArrayRef(values)));
    table = arith::MulFOp::create(e_.b, e_.loc, table, scale);
    return LLVM::CallIntrinsicOp::create(e_.b, e_.loc, type,
                                         e_.b.getStringAttr("llvm.x86.avx512.permvar.sf.512"),
                                         ValueRange{table, words})
        .getResult(0);
  }
  Value q = arith::AndIOp::create(e_.b, e_.loc, words, all(e_, lanes_, 15));
  q = arith::SubIOp::create(e_.b, e_.loc, q, all(e_, lanes_, 8));
  Value x = arith::SIToFPOp::create(e_.b, e_.loc, e_.vec(lanes_, e_.f32()), q);
  return arith::MulFOp::create(e_.b, e_.loc, x, scale);
}

Value CpuBlocks::along_k(const View& v, Value at) const {
  Value byte = byte_of(at), inside = e_.rem(at, e_.idx(kQ4Elements));
  Value words = bytes_at(v, e_.add(e_.add(byte, e_.rem(inside, e_.idx(kHalf))), kQ4Numbers));
  Value bits = e_.to_i32(e_.mul(e_.div(inside, e_.idx(kHalf)), 4));
  return numbers(shifted(words, e_.broadcast(bits, lanes_)), scale_at(v, byte));
}

Values CpuBlocks::block(const View& v, Value at) const {
  Value byte = byte_of(at), scale = scale_at(v, byte);
  Values lower, upper;
  for (int64_t i = 0; i < kHalf; i += lanes_) {
    Value words = bytes_at(v, e_.add(byte, kQ4Numbers + i));
    lower.push_back(numbers(words, scale));
    upper.push_back(numbers(shifted(words, all(e_, lanes_, 4)), scale));
  }
  lower.append(upper);
  return lower;
}

}  // namespace lathe::emit
