#include "kernels/matmul/cpu/emit_amx_tiles.h"

#include <cstring>

namespace lathe::emit {
using namespace mlir;

void AmxTiles::configure(Value memory, const std::array<Size, kRegisters>& sizes) const {
  uint8_t bytes[64] = {1};
  for (size_t tile = 0; tile < sizes.size(); ++tile) {
    bytes[16 + 2 * tile] = sizes[tile].bytes;
    bytes[48 + tile] = sizes[tile].lines;
  }
  SmallVector<int32_t> words(kSide);
  std::memcpy(words.data(), bytes, sizeof(bytes));
  VectorType type = e.vec(kSide, e.b.getI32Type());
  Value config = arith::ConstantOp::create(e.b, e.loc, DenseElementsAttr::get(type, llvm::ArrayRef(words)));
  e.store_vector(arith::BitcastOp::create(e.b, e.loc, e.vec(kSide, e.f32()), config), memory, e.idx(0));
  call("llvm.x86.ldtilecfg", {pointer_to(e, memory, e.idx(0))});
}

Value AmxTiles::number(int64_t tile) const {
  return LLVM::ConstantOp::create(e.b, e.loc, e.b.getI8Type(),
                                  e.b.getI8IntegerAttr(static_cast<int8_t>(tile)));
}
void AmxTiles::call(const char* name, ValueRange operands) const {
  LLVM::CallIntrinsicOp::create(e.b, e.loc, e.b.getStringAttr(name), operands);
}
void AmxTiles::move(const char* name, int64_t tile, const Place& p) const {
  Value pitch = arith::IndexCastOp::create(e.b, e.loc, e.b.getI64Type(), p.pitch);
  call(name, {number(tile), pointer_to(e, p.memory, p.at), pitch});
}

}  // namespace lathe::emit
