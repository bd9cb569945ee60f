#include "kernels/matmul/mma/emit_operand.h"

#include <algorithm>

namespace lathe::emit {
using namespace mlir;

namespace {

constexpr int64_t kBankLine = 128;  // bytes that the banks serve in a cycle

// A constant: `value`, or a vector with `value` in every element.
Value splat(Emit& e, Type type, uint32_t value) {
  auto one = e.b.getI32IntegerAttr(static_cast<int32_t>(value));
  auto vector = dyn_cast<VectorType>(type);
  auto all = vector ? cast<TypedAttr>(SplatElementsAttr::get(vector, one)) : cast<TypedAttr>(one);
  return arith::ConstantOp::create(e.b, e.loc, all);
}

}  // namespace

Value exclusive_or(Emit& e, Value x, Value y) { return arith::XOrIOp::create(e.b, e.loc, x, y); }
Value exclusive_or(Emit& e, Value x, int64_t y) {
  return y == 0 ? x : exclusive_or(e, x, e.constant(x.getType(), y));
}

Value shared_at(Emit& e, Value pointer, Value offset, int64_t constant) {
  Type type = pointer.getType(), byte = e.b.getI8Type();
  Value at = LLVM::GEPOp::create(e.b, e.loc, type, byte, pointer, ArrayRef<LLVM::GEPArg>{offset});
  if (constant == 0) return at;
  return LLVM::GEPOp::create(e.b, e.loc, type, byte, at,
                             ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(constant)});
}

// Converts OCP to FNUZ, four bytes per word, without carries between bytes: adding 0x7f to a magnitude of 7
// bits sets the eighth bit unless it is 0, adding 1 sets it only if it is 0x7f, which is NaN.
Value MmaOperand::as_multiplied(Emit& e, Value words) const {
  if (!instruction.fnuz_of_ocp) return words;
  const auto bytes = [&](uint8_t byte) { return splat(e, words.getType(), byte * 0x01010101u); };
  const auto both = [&](Value x, Value y) -> Value { return arith::AndIOp::create(e.b, e.loc, x, y); };
  // Emit's additions assume that nothing overflows; these may.
  const auto sum = [&](Value x, Value y) -> Value { return arith::AddIOp::create(e.b, e.loc, x, y); };
  Value sign = bytes(0x80), magnitude = both(words, bytes(0x7f));
  Value nan = both(sum(magnitude, bytes(1)), sign);
  Value nonzero = arith::OrIOp::create(e.b, e.loc, sum(magnitude, bytes(0x7f)), bytes(0x7f));
  // A NaN becomes 0x80, the only NaN of FNUZ. -0 has the same bits and has become +0.
  Value one = arith::ShRUIOp::create(e.b, e.loc, nan, splat(e, words.getType(), 7));
  Value kept = exclusive_or(e, arith::SubIOp::create(e.b, e.loc, nan, one), bytes(0xff));
  return arith::OrIOp::create(e.b, e.loc, both(both(words, nonzero), kept), nan);
}

Value SwizzledRows::exchange(Emit& e, Value row) const {
  const int64_t places = std::min<int64_t>(chunks(), 8);
  if (element_wise) {  // keeps eight f32 (two chunks) together
    const int64_t pairs = std::min<int64_t>(places / 2, 4);
    return e.mul(e.rem(row, e.i32(pairs)), 2);
  }
  // Rows shorter than the width of the banks share a line of banks, so they get the same swizzle.
  return e.rem(e.div(row, e.i32(std::max<int64_t>(kBankLine / row_bytes, 1))), e.i32(places));
}

Value SwizzledRows::at(Emit& e, Value row, Value chunk) const {
  return e.add(e.mul(row, row_bytes), e.mul(exclusive_or(e, chunk, exchange(e, row)), 16));
}

MmaWarp::MmaWarp(Emit& e, const GpuKernel& kernel, const MmaShape& shape)
    : rows(shape.warp_m),
      columns(shape.warp_n),
      fragment_rows(shape.fragment_rows()),
      fragment_columns(shape.fragment_columns()) {
  const int64_t lanes = shape.instruction.wave();
  Value thread = e.to_i32(kernel.thread()), warp = e.div(thread, e.i32(lanes));
  Value column_warps = e.i32(shape.tile_n / columns);
  lane = e.rem(thread, e.i32(lanes));
  place_row = e.div(warp, column_warps);
  place_column = e.rem(warp, column_warps);
  first_row = e.mul(place_row, rows);
  first_column = e.mul(place_column, columns);
}

MmaOperand MmaOperand::of(Emit& e, const GpuStep& step, const MmaShape& shape, const TileProgram& program,
                          Side side) {
  linalg::LinalgOp contraction = program.contraction;
  MmaOperand x;
  x.side = side;
  x.view = program.views.find(contraction.getDpsInputs()[side])->second;
  x.k_contiguous = emit::k_contiguous(contraction, side);
  x.chunks = side == kB ? shape.copies_chunks_of_b() : shape.copies_chunks_of_a();
  x.shared_k_contiguous = x.k_contiguous || !x.chunks || shape.instruction.amd();
  x.element_bytes = shape.element_bytes;
  x.width = side == kA ? shape.tile_m : shape.tile_n;
  x.warp_width = side == kA ? shape.warp_m : shape.warp_n;
  x.block = shape.tile_k;
  x.limit = side == kA ? program.rows : program.columns;
  x.depth = program.depth;
  x.whole_width = side == kB && program.n % x.chunk_elements() == 0;
  x.whole_depth = program.k % x.chunk_elements() == 0;
  x.whole_blocks = shape.instruction.amd() && program.k % shape.tile_k == 0;
  const bool along_k = x.shared_k_contiguous;
  const int64_t row_bytes = side == kA ? shape.row_bytes_of_a() : shape.row_bytes_of_b();
  x.layout = {along_k ? x.width : x.block, along_k ? row_bytes : x.width * x.element_bytes,
              !along_k && x.element_bytes == 4};
  x.place = side == kA ? 0 : shape.bytes_of_a();
  x.instruction = shape.instruction;
  x.scales_place = shape.stage_bytes() - shape.scale_bytes() + (side == kB ? 0 : shape.scale_bytes_of_b());
  if (shape.multiplies_codes()) {
    if (shape.applies_scales())
      x.instruction.lane_bytes = row_bytes * MatrixInstruction::kCodes / shape.tile_k;
    x.scales = scale_places(e, step, program, side);
    if (shape.scales_sums()) x.scaled = shape.scaled(), x.scale_words = 1;
  }
  if (side == kB ? shape.has_blocks() : shape.has_a_blocks()) {
    x.scaled = shape.scaled(), x.scale_words = side == kB ? shape.scale_words() : 1;
    x.code = shape.has_a_blocks() ? Type(e.b.getF16Type())
                                  : program.views.find(contraction.getDpsInputs()[kA])->second.element;
    x.scales = scale_places(e, step, program, side);
  }
  return x;
}

}  // namespace lathe::emit
