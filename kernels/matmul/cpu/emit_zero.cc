// Zero points of B. The sum of (a - za) (b - zb) is the sum of (a - za) b, which the kernels compute, minus
// zb times the sum of (a - za) along a row. That row sum is computed once per tile.
#include "kernels/matmul/cpu/emit.h"

namespace lathe::emit {
using namespace mlir;

Value sum_along_k(Emit& e, const CpuWords& words, const View& v, Value line, Value depth) {
  const int64_t width = words.width();
  Value whole = e.mul(e.div(depth, e.idx(width)), width);
  const auto step = [&](Value k, Value sum, Value left) {
    return words.add_a(words.along_k(v, e.add(line, k), left), sum);
  };
  Values sum = e.loop(e.idx(0), whole, width, {words.zero_sums()},
                      [&](Value k, const Values& x) { return Values{step(k, x[0], nullptr)}; });
  return e.choose(
      e.less(whole, depth), sum, [&] { return Values{step(whole, sum[0], e.sub(depth, whole))}; },
      [&] { return sum; })[0];
}

void ZeroPointsOfB::store(Emit& e, const ZeroSource& s, const View& a, bool a_k_contiguous) const {
  const int64_t lanes = words.lanes;
  auto i32s = e.vec(lanes, e.b.getI32Type());
  Value first = e.i32(0);  // what A's zero point subtracts from the sum of a row
  if (s.zero_a) first = words.mul(e.to_i32(s.depth), s.zero_a);
  if (a_k_contiguous) {
    e.loop(e.idx(0), s.rows, 1, [&](Value i) {
      Value line = e.add(a.offset, row_at(e, a, i));
      Value sum = words.sub(words.reduce(sum_along_k(e, words, a, line, s.depth)), first);
      e.store(arith::BitcastOp::create(e.b, e.loc, e.f32(), sum), rows, i);
    });
  } else {
    e.loop(e.idx(0), s.rows, lanes, [&](Value i) {
      Value left = e.sub(s.rows, i), from = e.add(a.offset, i);
      Values sum = e.loop(e.idx(0), s.depth, 1, {e.splat(i32s, 0)}, [&](Value k, const Values& x) {
        Value line = e.load_masked(a.memory, e.add(from, e.mul(k, a.row_stride)), lanes, left);
        return Values{words.add(x[0], arith::ExtSIOp::create(e.b, e.loc, i32s, line))};
      });
      e.store_vector(words.to_scratch(words.sub(sum[0], e.broadcast(first, lanes))), rows, i);
    });
  }
  e.loop(e.idx(0), s.columns, lanes, [&](Value j) {
    Value zeros = s.of_columns ? e.load_masked(s.zero_b, e.add(s.column0, j), lanes, e.sub(s.columns, j))
                               : e.broadcast(e.load(s.zero_b, e.idx(0)), lanes);
    e.store_vector(words.to_scratch(zeros), columns, j);
  });
}

Value ZeroPointsOfB::take(Emit& e, Value products, Value i, Value j) const {
  const int64_t lanes = words.lanes;
  Value of_row = words.sums_of(e.broadcast(e.load(rows, i), lanes));
  Value zeros = words.sums_of(e.load_vector(columns, j, lanes));
  return words.sub(products, words.mul(of_row, zeros));
}

}  // namespace lathe::emit
