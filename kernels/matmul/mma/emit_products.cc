#include "kernels/matmul/mma/emit_products.h"

#include "compiler/ptx_mma.h"

namespace lathe::emit {
using namespace mlir;

Type MmaProducts::sum_type() const {
  return element().isInteger() && !shape_.multiplies_codes() ? Type(e_.b.getI32Type()) : e_.f32();
}

void MmaProducts::multiply(Values& sums, const Values& registers) const {
  if (shape_.applies_scales()) return multiply_with_scales(sums, registers);
  const bool amd = shape_.instruction.amd();
  if (b_.scaled > 0 && !shape_.adds_parts())
    return amd ? multiply_and_scale_lanes(sums, registers) : multiply_scaled(sums, registers);
  return amd ? multiply_all_lanes(sums, registers) : multiply_warps(sums, registers);
}
void MmaProducts::multiply_all_lanes(Values& sums, const Values& registers) const {
  for (int64_t i = 0; i < warp_.fragment_rows; ++i)
    for (int64_t j = 0; j < warp_.fragment_columns; ++j) {
      Value& sum = sums[i * warp_.fragment_columns + j];
      sum = multiply_lanes(e_, shape_.instruction, registers[i], registers[warp_.fragment_rows + j], sum);
    }
}
void MmaProducts::multiply_warps(Values& sums, const Values& registers) const {
  ArrayRef<Value> a = ArrayRef(registers).take_front(warp_.fragment_rows * 4);
  ArrayRef<Value> b = ArrayRef(registers).drop_front(warp_.fragment_rows * 4);
  for (int64_t i = 0; i < warp_.fragment_rows; ++i)
    for (int64_t j = 0; j < warp_.fragment_columns; ++j) {
      const size_t at = (i * warp_.fragment_columns + j) * 4;
      Values sum =
          multiply_matrices(e_, element(), a.slice(i * 4, 4), b.slice(j * 2, 2), ArrayRef(sums).slice(at, 4));
      llvm::copy(sum, sums.begin() + at);
    }
}

// The products of a fragment of A (of each step) and one of B, summed over the steps.
Values MmaProducts::product(const SmallVector<ArrayRef<Value>>& a,
                            const SmallVector<ArrayRef<Value>>& b) const {
  Values sum(4, e_.zero(sum_type()));
  for (auto [x, y] : llvm::zip(a, b)) sum = multiply_matrices(e_, element(), x, y, sum);
  return sum;
}
Value MmaProducts::finite_or_zero(Value x) const {
  Value bits = arith::BitcastOp::create(e_.b, e_.loc, e_.b.getI32Type(), x);
  bits = arith::AndIOp::create(e_.b, e_.loc, bits, e_.i32(0x7fffffff));
  return arith::SelectOp::create(e_.b, e_.loc, e_.less(bits, e_.i32(0x7f800000)), x, e_.zero(x.getType()));
}
// Adds scale * sum of A by codes, and if there are minima, minimum * sum of A (GpuPieces::Decoded). If A is in
// blocks, its scale comes first: the product of two scales could overflow.
void MmaProducts::multiply_scaled(Values& sums, const Values& registers) const {
  const int64_t of_a = warp_.fragment_rows * 4, of_b = warp_.fragment_columns * 2, words = b_.scale_words;
  const int64_t steps = shape_.scaled_steps();
  ArrayRef<Value> all(registers), scales = all.drop_front(steps * (of_a + of_b)),
                                  of_scaled_rows = scales.drop_front(2 * warp_.fragment_columns * words);
  const auto of_steps = [&](int64_t first, int64_t count) {
    SmallVector<ArrayRef<Value>> parts;
    for (int64_t step = 0; step < steps; ++step)
      parts.push_back(all.slice(step * (of_a + of_b) + first, count));
    return parts;
  };
  const Values one(2, e_.i32(two_ones()));  // of a matrix of ones
  const SmallVector<ArrayRef<Value>> ones(static_cast<size_t>(steps), ArrayRef<Value>(one));
  for (int64_t i = 0; i < warp_.fragment_rows; ++i) {
    const auto a = of_steps(i * 4, 4);
    Values of_rows = words > 1 ? product(a, ones) : Values();
    for (Value& sum : of_rows) sum = finite_or_zero(sum);
    for (int64_t j = 0; j < warp_.fragment_columns; ++j) {
      const Values part = product(a, of_steps(of_a + j * 2, 2));
      for (int64_t l = 0; l < 4; ++l) {
        Value& sum = sums[(i * warp_.fragment_columns + j) * 4 + l];
        const int64_t scale = (j * 2 + l % 2) * words;
        Value scaled_part = part[l];
        if (a_.scaled > 0)
          scaled_part = arith::MulFOp::create(e_.b, e_.loc, scaled_part, of_scaled_rows[2 * i + l / 2]);
        sum = e_.fma(scaled_part, scales[scale], sum);
        if (words > 1) sum = e_.fma(of_rows[l], scales[scale + 1], sum);
      }
    }
  }
}

// The instruction scales.
void MmaProducts::multiply_with_scales(Values& sums, const Values& registers) const {
  const auto rows = static_cast<size_t>(warp_.fragment_rows),
             columns = static_cast<size_t>(warp_.fragment_columns);
  ArrayRef<Value> all(registers), scales = all.drop_front(rows + columns);
  const size_t of_b = columns / static_cast<size_t>(b_.scales_together());
  const ScaledFragments a(a_, all.take_front(rows), scales.drop_front(of_b)),
      b(b_, all.slice(rows, columns), scales.take_front(of_b));
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j) {
      Value& sum = sums[i * columns + j];
      sum = multiply_scaled_lanes(e_, shape_.instruction, a, static_cast<int64_t>(i), b,
                                  static_cast<int64_t>(j), sum);
    }
}

// AMD: the same, where vectors hold the sums and the scales of a fragment.
void MmaProducts::multiply_and_scale_lanes(Values& sums, const Values& registers) const {
  const int64_t rows = warp_.fragment_rows, columns = warp_.fragment_columns, words = b_.scale_words;
  const int64_t steps = shape_.scaled_steps(), of_step = rows + columns;
  ArrayRef<Value> scales = ArrayRef(registers).drop_front(steps * of_step);
  VectorType vector = cast<VectorType>(sums[0].getType());
  const auto product = [&](int64_t row, llvm::function_ref<Value(int64_t)> b) {
    Value sum = e_.zero(vector);
    for (int64_t step = 0; step < steps; ++step)
      sum = multiply_lanes(e_, shape_.instruction, registers[step * of_step + row], b(step), sum);
    return sum;
  };
  auto ones_type = cast<VectorType>(registers[0].getType());
  Value ones = arith::ConstantOp::create(
      e_.b, e_.loc, SplatElementsAttr::get(ones_type, e_.b.getI32IntegerAttr(two_ones())));
  for (int64_t i = 0; i < rows; ++i) {
    Value of_row;
    if (words > 1) {  // all columns of the product are the same
      Value same = product(i, [&](int64_t) { return ones; });
      Value one = LLVM::ExtractElementOp::create(e_.b, e_.loc, same, e_.i32(0));
      of_row = e_.broadcast(finite_or_zero(one), vector.getNumElements());
    }
    for (int64_t j = 0; j < columns; ++j) {
      Value part = product(i, [&](int64_t step) { return registers[step * of_step + rows + j]; });
      Value& sum = sums[i * columns + j];
      sum = scaled_sum(part, scales, i, j, sum);
      if (words > 1) sum = e_.fma(of_row, scales[j * words + 1], sum);
    }
  }
}
// Adds a fragment's part, which has scales (load_scales). If A is in blocks, its scale comes first: the product of two
// scales could overflow.
Value MmaProducts::scaled_sum(Value part, ArrayRef<Value> scales, int64_t i, int64_t j, Value sum) const {
  const int64_t columns = warp_.fragment_columns, words = b_.scale_words;
  if (a_.scaled > 0) {
    Value of_row =
        e_.broadcast(scales[columns * words + i], cast<VectorType>(part.getType()).getNumElements());
    part = arith::MulFOp::create(e_.b, e_.loc, part, of_row);
  }
  return e_.fma(part, scales[j * words], sum);
}
void MmaProducts::add_scaled(Values& sums, const Values& parts, const Values& scales) const {
  for (int64_t i = 0; i < warp_.fragment_rows; ++i)
    for (int64_t j = 0; j < warp_.fragment_columns; ++j) {
      const int64_t at = i * warp_.fragment_columns + j;
      sums[at] = scaled_sum(parts[at], scales, i, j, sums[at]);
    }
}

}  // namespace lathe::emit
