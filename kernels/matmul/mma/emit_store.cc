#include "kernels/matmul/mma/emit_store.h"

#include <numeric>

#include "core/plan.h"

namespace lathe::emit {
using namespace mlir;

LogicalResult MmaStore::store(const MmaShape& shape, const MmaWarp& warp, ArrayRef<Value> sums,
                              Value shared) {
  if (p_.argmax) {
    std::unique_ptr<OutputSink> sink = make_sink(e_, kernel_, step_, p_, position_);
    kernel_.barrier();
    to_sink(shape, warp, sums, *sink);
    return sink->done();
  }
  for (int64_t first = 0; first < warp.fragment_rows; first += shape.store_rows()) {
    if (first > 0) kernel_.barrier();
    to_shared(shape, warp, sums, shared, first);
    kernel_.barrier();
    from_shared(shape, sums[0].getType(), shared, first);
  }
  return step_.merges() ? merge_last(e_, kernel_, step_, position_) : success();
}

void MmaStore::to_shared(const MmaShape& shape, const MmaWarp& warp, ArrayRef<Value> sums, Value shared,
                         int64_t first) {
  const MatrixInstruction& t = shape.instruction;
  const SumLayout layout = t.layout();
  const int64_t rows = shape.store_rows(), row_bytes = shape.store_pitch() * MmaShape::kSumBytes;
  Value row = e_.add(e_.mul(warp.place_row, rows * t.rows), row_of(warp, layout));
  Value column = e_.add(warp.first_column, column_of(warp, layout));
  Value lane = e_.add(e_.mul(row, row_bytes), e_.mul(column, MmaShape::kSumBytes));
  // Each store writes a whole run, or 16 bytes of it.
  const int64_t width = std::min<int64_t>(layout.run, 4);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < warp.fragment_columns; ++j)
      for (int64_t sum = 0; sum < t.sums(); sum += width) {
        const int64_t at = ((first + i) * warp.fragment_columns + j) * t.sums() + sum, run = sum / layout.run;
        const int64_t to_row = i * t.rows + run * layout.run_rows,
                      to_column = j * t.columns + run * layout.run_columns + sum % layout.run;
        Value target = shared_at(e_, shared, lane, to_row * row_bytes + to_column * MmaShape::kSumBytes);
        LLVM::StoreOp::create(e_.b, e_.loc, joined(sums.slice(at, width)), target,
                              width * MmaShape::kSumBytes);
      }
}

Value MmaStore::joined(ArrayRef<Value> values) {
  if (values.size() == 1) return values[0];
  Value vector = LLVM::PoisonOp::create(e_.b, e_.loc, e_.vec(values.size(), values[0].getType()));
  for (auto [i, value] : llvm::enumerate(values))
    vector = LLVM::InsertElementOp::create(e_.b, e_.loc, vector, value, e_.i32(i));
  return vector;
}

Value MmaStore::row_of(const MmaWarp& warp, const SumLayout& layout) {
  return e_.rem(e_.div(warp.lane, e_.i32(layout.row_divisor)), e_.i32(layout.row_lanes));
}
Value MmaStore::column_of(const MmaWarp& warp, const SumLayout& layout) {
  Value lanes = e_.rem(e_.div(warp.lane, e_.i32(layout.column_divisor)), e_.i32(layout.column_lanes));
  return e_.mul(lanes, layout.column_step);
}

// Elements of D (or of the workspace) that a thread stores at once: as many as alignment allows, up to 16
// bytes.
int64_t MmaStore::vector() const {
  const int64_t most = 16 * 8 / p_.output.element.getIntOrFloatBitWidth();
  const bool aligned = kernel_.config().getSplit() != kNoSplit || kernel_.alignment() == Alignment::k16;
  return aligned ? std::gcd(p_.n, most) : 1;
}

void MmaStore::from_shared(const MmaShape& shape, Type sum, Value shared, int64_t first) {
  const int64_t lanes = vector(), per_row = shape.tile_n / lanes;
  const int64_t rows = shape.store_rows() * shape.instruction.rows;
  const int64_t slab_rows = shape.row_warps() * rows, pitch = shape.store_pitch();
  e_.loop(e_.to_i32(kernel_.thread()), e_.i32(slab_rows * per_row), kernel_.threads(), [&](Value at) {
    Value place = e_.div(at, e_.i32(per_row)), column = e_.mul(e_.rem(at, e_.i32(per_row)), lanes);
    // The slab holds `rows` consecutive rows of the tile for each row of warps, one group after the other.
    Value warp_row = e_.mul(e_.div(place, e_.i32(rows)), shape.warp_m);
    Value row = e_.add(e_.add(warp_row, e_.rem(place, e_.i32(rows))), first * shape.instruction.rows);
    Value i = e_.to_index(row), j = e_.to_index(column);
    Value inside_both = arith::AndIOp::create(e_.b, e_.loc, e_.less(i, p_.rows), e_.less(j, p_.columns));
    e_.when(inside_both, [&] {
      Value offset = e_.mul(e_.add(e_.mul(place, pitch), column), MmaShape::kSumBytes);
      Type type = lanes == 1 ? sum : Type(e_.vec(lanes, sum));
      Value value = LLVM::LoadOp::create(e_.b, e_.loc, type, shared_at(e_, shared, offset),
                                         /*alignment=*/std::min<int64_t>(lanes * MmaShape::kSumBytes, 16));
      Value result = finish(e_, p_, value, i, j, lanes == 1 ? 0 : lanes);
      Value target = inside(e_, p_.output, i, j);
      const View& d = p_.output;
      const int64_t bytes = d.element.getIntOrFloatBitWidth() / 8;
      if (lanes == 1)
        e_.store(result, d.memory, target, d.alignment);
      else
        e_.store_vector(result, d.memory, target, std::min<int64_t>(lanes * bytes, 16));
    });
  });
}

void MmaStore::to_sink(const MmaShape& shape, const MmaWarp& warp, ArrayRef<Value> sums, OutputSink& sink) {
  const MatrixInstruction& t = shape.instruction;
  const SumLayout layout = t.layout();
  Value first_row = e_.add(warp.first_row, row_of(warp, layout));
  Value first_column = e_.add(warp.first_column, column_of(warp, layout));
  // If runs lie below each other, each is a row of its own; if they lie side by side, all are in one row.
  const int64_t runs = t.sums() / layout.run, run_rows = layout.run_rows > 0 ? runs : 1;
  for (int64_t i = 0; i < warp.fragment_rows; ++i)
    for (int64_t row = 0; row < run_rows; ++row) {
      Values columns, values;
      for (int64_t j = 0; j < warp.fragment_columns; ++j)
        for (int64_t l = 0; l < t.sums() / run_rows; ++l) {
          const int64_t run = l / layout.run;
          columns.push_back(e_.add(first_column, j * t.columns + run * layout.run_columns + l % layout.run));
          values.push_back(sums[(i * warp.fragment_columns + j) * t.sums() + row * t.sums() / run_rows + l]);
        }
      sink.row(e_.add(first_row, i * t.rows + row * layout.run_rows), columns, values, layout.lanes_of_row);
    }
}

}  // namespace lathe::emit
