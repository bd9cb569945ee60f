// Stores a warpgroup's accumulators to D with TMA. Each warp rounds its 16 rows to D's type, 64 columns at a time,
// into a box in shared memory, and TMA stores one box while the warp fills the next. TMA skips elements outside D.
#include "kernels/matmul/wgmma/emit.h"

namespace lathe::emit {
using namespace mlir;

// The epilogue's inputs for the pair of columns at `column`, two values each. Beyond the last column the last
// ones are read again.
Values WgmmaKernel::inputs_of_pair(TileProgram& p, Value column) {
  Values inputs;
  Value columns = e_.to_i32(p.columns);
  const auto operands = p.epilogue.getDpsInputs();  // by value
  for (Value input : llvm::drop_begin(operands)) {
    const View& v = p.views.find(input)->second;
    const auto at = [&](Value j, int64_t from_end) {
      Value inside = e_.min(j, e_.sub(columns, e_.i32(from_end)));
      return e_.add(v.offset, e_.to_index(inside));
    };
    if (n_ % 2 == 0) {
      Value two = e_.load_vector(v.memory, at(column, 2), 2, v.element.getIntOrFloatBitWidth() / 4);
      for (int64_t c = 0; c < 2; ++c)
        inputs.push_back(vector::ExtractOp::create(e_.b, e_.loc, two, ArrayRef<int64_t>{c}));
    } else {
      for (int64_t c = 0; c < 2; ++c) inputs.push_back(e_.load(v.memory, at(e_.add(column, c), 1)));
    }
  }
  return inputs;
}

// Applies the epilogue to two adjacent elements of a row and rounds them; the result is packed in an i32.
Value WgmmaKernel::rounded_pair(TileProgram& p, const Values& sums, const Values& row_inputs) {
  Values results;
  for (size_t c = 0; c < 2; ++c) {
    Values inputs = {sums[c]};
    for (size_t i = c; i < row_inputs.size(); i += 2) inputs.push_back(row_inputs[i]);
    inputs.push_back(nullptr);
    results.push_back(inline_elementwise(e_, p.epilogue, inputs, /*lanes=*/0, p.mapping));
  }
  Value pair = vector::FromElementsOp::create(e_.b, e_.loc, e_.vec(2, p.output.element), results);
  Value bits = vector::BitCastOp::create(e_.b, e_.loc, e_.vec(1, e_.b.getI32Type()), pair);
  return vector::ExtractOp::create(e_.b, e_.loc, bits, ArrayRef<int64_t>{0});
}

void WgmmaKernel::copy_tile(TileProgram& p, const Values& sums) {
  constexpr int64_t kColumns = WgmmaShape::kBoxColumns, kRow = WgmmaShape::kRow;
  const int64_t of_block = shape_.q().width / 2, boxes = shape_.q().width / kColumns,
                all = shape_.blocks * boxes;
  // The lane's address for stmatrix: its row and, in units of 16 bytes along the row, the position of its
  // matrix in each group of four (rows 0 to 7 and 8 to 15 of 8 columns, then of the next 8). The swizzle XORs
  // the unit with the row.
  Value in_matrix = e_.rem(lane_, e_.i32(8)), matrix = e_.div(lane_, e_.i32(8));
  Value row = e_.add(in_matrix, e_.mul(e_.rem(matrix, e_.i32(2)), 8));
  Value place = arith::XOrIOp::create(e_.b, e_.loc, e_.div(matrix, e_.i32(2)), in_matrix);
  Value first = patch_address(warp_), pair = e_.mul(e_.rem(lane_, e_.i32(4)), 2);
  Value is_first_lane = e_.equal(lane_, e_.i32(0));
  Value row0 = e_.to_i32(p.row0), column0 = e_.to_i32(p.column0), batch = e_.to_i32(p.batch);
  for (int64_t index = 0; index < all; ++index) {
    const int64_t column = index % boxes * kColumns, block = index / boxes;
    Value box = e_.add(first, index % 2 * WgmmaShape::kBoxBytes);
    // The previous store of this box must have been read; the other box's store may still be pending. If the
    // number of boxes is odd, the previous tile ended with this same box, so wait for both.
    e_.when(is_first_lane, [&] { wait_copies_read(e_, index == 0 && all % 2 ? 0 : 1); });
    sync_warp(e_);
    for (int64_t j = 0; j < kColumns; j += 16) {
      Values registers;
      for (int64_t next : {0, 8}) {
        const int64_t at = block * of_block + (column + j + next) / 2;
        const Values inputs = inputs_of_pair(p, e_.add(pair, column + j + next));
        for (int64_t h = 0; h < 2; ++h)
          registers.push_back(rounded_pair(p, {sums[at + 2 * h], sums[at + 2 * h + 1]}, inputs));
      }
      Value unit = arith::XOrIOp::create(e_.b, e_.loc, place, e_.i32(j / 8));
      store_matrices(e_, e_.add(box, e_.add(e_.mul(row, kRow), e_.mul(unit, 16))), registers);
    }
    fence_copies(e_);
    sync_warp(e_);
    e_.when(is_first_lane, [&] {
      Value of_warp =
          e_.add(e_.mul(e_.div(warp_, e_.i32(4)), 64 * shape_.blocks), e_.mul(e_.rem(warp_, e_.i32(4)), 16));
      copy_out(e_, map_out_, {e_.add(column0, column), e_.add(row0, e_.add(of_warp, 64 * block)), batch},
               box);
      commit_copies_out(e_);
    });
  }
}

}  // namespace lathe::emit
