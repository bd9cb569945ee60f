#include "kernels/matmul/emit_mma_operand.h"

#include <algorithm>

#include "compiler/ptx_mma.h"

namespace lathe::emit {
using namespace mlir;

namespace {

constexpr int64_t kBankLine = 128;  // bytes that all banks serve at once

Value exclusive_or(Emit& e, Value x, Value y) { return arith::XOrIOp::create(e.b, e.loc, x, y); }
Value exclusive_or(Emit& e, Value x, int64_t y) {
  return y == 0 ? x : exclusive_or(e, x, e.constant(x.getType(), y));
}

}  // namespace

Value shared_at(Emit& e, Value pointer, Value offset, int64_t constant) {
  Type type = pointer.getType(), byte = e.b.getI8Type();
  Value at = LLVM::GEPOp::create(e.b, e.loc, type, byte, pointer, ArrayRef<LLVM::GEPArg>{offset});
  if (constant == 0) return at;
  return LLVM::GEPOp::create(e.b, e.loc, type, byte, at,
                             ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(constant)});
}

Value SwizzledRows::exchange(Emit& e, Value row) const {
  const int64_t places = std::min<int64_t>(chunks(), 8);
  if (element_wise) {  // eight f32, two chunks, stay together
    const int64_t pairs = std::min<int64_t>(places / 2, 4);
    return e.mul(e.rem(row, e.i32(pairs)), 2);
  }
  // Rows shorter than a line of banks share one: they are exchanged together.
  return e.rem(e.div(row, e.i32(std::max<int64_t>(kBankLine / row_bytes, 1))), e.i32(places));
}

Value SwizzledRows::at(Emit& e, Value row, Value chunk) const {
  return e.add(e.mul(row, row_bytes), e.mul(exclusive_or(e, chunk, exchange(e, row)), 16));
}

MmaWarp::MmaWarp(Emit& e, const GpuKernel& kernel, const MmaShape& shape)
    : rows(shape.warp_m), columns(shape.warp_n), fragment_rows(rows / 16), fragment_columns(columns / 8) {
  Value thread = e.to_i32(kernel.thread()), warp = e.div(thread, e.i32(32));
  Value column_warps = e.i32(shape.tile_n / columns);
  lane = e.rem(thread, e.i32(32));
  place_row = e.div(warp, column_warps);
  place_column = e.rem(warp, column_warps);
  first_row = e.mul(place_row, rows);
  first_column = e.mul(place_column, columns);
}

MmaOperand MmaOperand::of(const MmaShape& shape, const TileProgram& program, Side side) {
  linalg::LinalgOp contraction = program.contraction;
  MmaOperand x;
  x.side = side;
  x.view = program.views.find(contraction.getDpsInputs()[side])->second;
  x.k_contiguous = emit::k_contiguous(contraction, side);
  x.async = shape.copies_chunks(x.k_contiguous);
  x.shared_k_contiguous = x.k_contiguous || !x.async;
  x.element_bytes = shape.element_bytes;
  x.width = side == kA ? shape.tile_m : shape.tile_n;
  x.warp_width = side == kA ? shape.warp_m : shape.warp_n;
  x.block = shape.tile_k;
  x.limit = side == kA ? program.rows : program.columns;
  x.depth = program.depth;
  x.whole_width = side == kB && program.n % x.chunk_elements() == 0;
  x.whole_depth = program.k % x.chunk_elements() == 0;
  const bool along_k = x.shared_k_contiguous;
  x.layout = {along_k ? x.width : x.block, (along_k ? x.block : x.width) * x.element_bytes,
              !along_k && x.element_bytes == 4};
  x.place = side == kA ? 0 : shape.tile_m * shape.depth_bytes();
  return x;
}

MmaFragments::MmaFragments(Emit& e, const MmaOperand& x, Value shared, Value first, Value lane)
    : e_(e), x_(x), shared_(shared) {
  const SwizzledRows& layout = x.layout;
  if (layout.element_wise) {
    // Register r of 16 rows of A: k = lane % 4 + r / 2 * 4, row = lane / 4 + r % 2 * 8; of 8 columns of B: k
    // = lane % 4 + r * 4, column = lane / 4. The exchange is that of k % 4 for all of them.
    Value k = e.rem(lane, e.i32(4)), within = e.mul(e.div(lane, e.i32(4)), 4);
    for (int64_t group = 0; group < x.warp_width; group += 8) {
      Value chunk = e.div(e.add(first, group), e.i32(4));
      lanes_.push_back(e.add(layout.at(e, k, chunk), within));
    }
    return;
  }
  // The four matrices of a load: the second is the next 8 rows of the first, the third its next chunk, or the
  // other way round, so that the registers come in mma's order.
  Value low = e.rem(lane, e.i32(16)), high = e.div(lane, e.i32(16));
  const bool rows_first = (x.side == MmaOperand::kA) == x.shared_k_contiguous;
  Value half = rows_first ? high : e.div(low, e.i32(8));
  Value row = rows_first ? low : e.add(e.rem(lane, e.i32(8)), e.mul(high, 8));
  if (x.shared_k_contiguous) {
    Value start = e.mul(e.add(first, row), layout.row_bytes);
    Value chunk = e.mul(exclusive_or(e, half, layout.exchange(e, row)), 16);
    for (int64_t step = 0; step * MmaShape::kStepBytes < layout.row_bytes; ++step)
      lanes_.push_back(e.add(start, exclusive_or(e, chunk, step * MmaShape::kStepBytes)));
  } else {
    for (int64_t group = 0; group < x.warp_width; group += 16) {
      Value chunk = e.add(e.div(e.add(first, group), e.i32(8)), half);
      lanes_.push_back(layout.at(e, row, chunk));
    }
  }
}

Values MmaFragments::load(Value stage, int64_t step) {
  Values registers = x_.layout.element_wise ? load_elements_at(stage, step) : load_matrices_at(stage, step);
  // Left as f32 they would be cut off to tf32, with twice the error and a bias towards zero.
  if (x_.view.element.isF32())
    for (Value& r : registers) r = round_to_tf32(e_, r);
  return registers;
}

Values MmaFragments::load_matrices_at(Value stage, int64_t step) {
  Values registers;
  const int64_t depth = MmaShape::kStepBytes / x_.element_bytes, row_bytes = x_.layout.row_bytes;
  for (int64_t group = 0; group < x_.warp_width; group += 16) {
    const bool along_k = x_.shared_k_contiguous;
    Value lane = along_k ? lanes_[step] : lanes_[group / 16];
    const int64_t constant = x_.place + (along_k ? group : step * depth) * row_bytes;
    registers.append(
        load_matrices(e_, shared_at(e_, shared_, e_.add(stage, lane), constant), /*transposed=*/!along_k));
  }
  return registers;
}

Values MmaFragments::load_elements_at(Value stage, int64_t step) {
  Values registers;
  const auto element = [&](int64_t group, int64_t k) {
    const int64_t constant = x_.place + (step * MmaShape::kStepBytes / 4 + k) * x_.layout.row_bytes;
    Value at = shared_at(e_, shared_, e_.add(stage, lanes_[group]), constant);
    registers.push_back(LLVM::LoadOp::create(e_.b, e_.loc, e_.b.getI32Type(), at, /*alignment=*/4));
  };
  const int64_t groups = x_.side == MmaOperand::kA ? 2 : 1;  // of eight, in one fragment
  for (int64_t group = 0; group < x_.warp_width / 8; group += groups)
    for (int64_t k : {0, 4})
      for (int64_t i = 0; i < groups; ++i) element(group + i, k);
  return registers;
}

}  // namespace lathe::emit
