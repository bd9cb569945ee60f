#include "kernels/matmul/cpu/emit_blocks.h"

// To add a block format: a struct like Q4_0Reader with along_k() and block(), and a line in read_blocks().
namespace lathe::emit {
using namespace mlir;

namespace {

constexpr int64_t kZmmLanes = 16;

// Loads from the bytes of a view. `byte` is the first byte of a block.
struct BlockReader {
  Emit& e;
  int64_t lanes;
  const View& v;

  int64_t elements() const { return block_elements(v.blocks); }
  Value byte_of(Value at) const {
    return e.mul(e.div(at, e.idx(elements())), static_cast<int64_t>(size_of(v.blocks)));
  }
  // The f16 scale at `byte` in all lanes. Broadcast before it is widened: two instructions on x86, while a
  // scalar takes four.
  Value scale_at(Value byte) const {
    Value pointer = pointer_to(e, v.memory, byte);
    Value scale = LLVM::LoadOp::create(e.b, e.loc, e.b.getF16Type(), pointer, /*alignment=*/1);
    return e.to_f32(e.broadcast(scale, lanes));
  }
  // A vector of unsigned bytes as i32.
  Value bytes_at(Value byte) const {
    return arith::ExtUIOp::create(e.b, e.loc, e.vec(lanes, e.b.getI32Type()),
                                  e.load_vector(v.memory, byte, lanes));
  }
  Value shifted(Value words, Value bits) const { return arith::ShRUIOp::create(e.b, e.loc, words, bits); }
  Value all(int32_t word) const {
    Attribute value = e.b.getI32IntegerAttr(word);
    return arith::ConstantOp::create(e.b, e.loc,
                                     SplatElementsAttr::get(e.vec(lanes, e.b.getI32Type()), value));
  }
};

struct Q4_0Reader : BlockReader {
  static constexpr int64_t kHalf =
      Q4_0::kElements / 2;  // elements that share their bytes with the other half
  static_assert(kZmmLanes == kHalf, "a vector's lanes are the sixteen numbers of 4 bits");

  // scale * (q - 8) of the lower 4 bits of each word. The product has 15 bits of mantissa, so it is exact. With
  // sixteen lanes a register holds the sixteen possible products, and a permutation looks them up by those bits.
  // Decoding four blocks per vector is not faster, because shifts and permutations share two units.
  Value numbers(Value words, Value scale) const {
    if (lanes == kZmmLanes) {
      SmallVector<float> values;
      for (int q = 0; q < 16; ++q) values.push_back(static_cast<float>(q - 8));
      auto type = e.vec(lanes, e.f32());
      Value table =
          arith::ConstantOp::create(e.b, e.loc, DenseElementsAttr::get(type, llvm::ArrayRef(values)));
      table = arith::MulFOp::create(e.b, e.loc, table, scale);
      return LLVM::CallIntrinsicOp::create(e.b, e.loc, type,
                                           e.b.getStringAttr("llvm.x86.avx512.permvar.sf.512"),
                                           ValueRange{table, words})
          .getResult(0);
    }
    Value q = arith::AndIOp::create(e.b, e.loc, words, all(15));
    q = arith::SubIOp::create(e.b, e.loc, q, all(8));
    Value x = arith::SIToFPOp::create(e.b, e.loc, e.vec(lanes, e.f32()), q);
    return arith::MulFOp::create(e.b, e.loc, x, scale);
  }

  Value along_k(Value at) const {
    Value byte = byte_of(at), inside = e.rem(at, e.idx(elements()));
    Value words = bytes_at(e.add(e.add(byte, e.rem(inside, e.idx(kHalf))), Q4_0::kNumbers));
    Value bits = e.to_i32(e.mul(e.div(inside, e.idx(kHalf)), 4));
    return numbers(shifted(words, e.broadcast(bits, lanes)), scale_at(byte));
  }

  Values block(Value at) const {
    Value byte = byte_of(at), scale = scale_at(byte);
    Values lower, upper;
    for (int64_t i = 0; i < kHalf; i += lanes) {
      Value words = bytes_at(e.add(byte, Q4_0::kNumbers + i));
      lower.push_back(numbers(words, scale));
      upper.push_back(numbers(shifted(words, all(4)), scale));
    }
    lower.append(upper);
    return lower;
  }
};

// Calls `use` with the reader of the view's format.
template <typename Use>
auto read_blocks(Emit& e, int64_t lanes, const View& v, Use use) {
  switch (v.blocks) {
    case DType::kQ4_0: return use(Q4_0Reader{{e, lanes, v}});
    default: llvm::report_fatal_error("no reader for this block format");
  }
}

}  // namespace

Value CpuBlocks::byte_of(Value at) const { return BlockReader{e_, lanes_, v_}.byte_of(at); }
Value CpuBlocks::along_k(Value at) const {
  return read_blocks(e_, lanes_, v_, [&](const auto& reader) { return reader.along_k(at); });
}
Values CpuBlocks::block(Value at) const {
  return read_blocks(e_, lanes_, v_, [&](const auto& reader) { return reader.block(at); });
}

}  // namespace lathe::emit
