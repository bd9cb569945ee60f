// "dot": for few rows and weights stored N by K. Every row of B is streamed from memory once and met by
// register_m rows of A at a time; register_m x register_n vector accumulators run along K and are summed
// across lanes at the end. Rows and columns past the edge read the last row again, and their products land in
// the accumulators' padding.
#include "base/dtype.h"
#include "kernels/matmul/emit_cpu.h"

namespace lathe::emit {
using namespace mlir;

LogicalResult emit_dot(Emit& e, const CpuTile& t) {
  if (!t.a_k_contiguous || !t.b_k_contiguous)
    return emitError(e.loc, "matmul kernel 'dot' needs both operands K-contiguous");
  const int64_t rm = t.register_rows, rn = t.register_columns;
  const int64_t lanes = t.lanes, unroll = t.unroll_k;
  VectorType vector = e.vec(lanes, e.f32());
  const int64_t passes = ceil_div(t.tile_rows, rm);
  Value last_row = e.sub(t.rows, e.idx(1)), last_column = e.sub(t.columns, e.idx(1));

  auto tile = [&](Value i, Value j) {
    Values a_row, b_row;
    for (int64_t r = 0; r < rm; ++r)
      a_row.push_back(e.add(t.a.offset, e.mul(e.min(e.add(i, r), last_row), t.a.row_stride)));
    for (int64_t c = 0; c < rn; ++c)
      b_row.push_back(e.add(t.b.offset, e.mul(e.min(e.add(j, c), last_column), t.b.row_stride)));
    // The passes over the rows of A share out fetching the next group's rows of B, a line for each line read:
    // a row is too short for the hardware to get far ahead in, and every row starts a new page. With one or
    // two rows memory alone sets the pace, and a fetch is only one more instruction.
    Values next_row;
    for (int64_t c = 0; t.tile_rows > 2 && c < ceil_div(rn, passes); ++c) {
      Value row = e.add(e.mul(e.div(i, e.idx(rm)), ceil_div(rn, passes)), rn + c);
      next_row.push_back(e.add(t.b.offset, e.mul(e.min(e.add(j, row), last_column), t.b.row_stride)));
    }
    // One vector of K from every row: all pairs multiplied.
    auto step = [&](Value k, Values sums, Value left) {
      if (!left)
        for (Value row : next_row) e.prefetch(t.b.memory, e.add(row, k));
      auto read = [&](const View& v, Value row) {
        Value at = e.add(row, k);
        return e.to_f32(left ? e.load_masked(v.memory, at, lanes, left) : e.load_vector(v.memory, at, lanes));
      };
      Values b;
      for (int64_t c = 0; c < rn; ++c) b.push_back(read(t.b, b_row[c]));
      for (int64_t r = 0; r < rm; ++r) {
        Value a = read(t.a, a_row[r]);
        for (int64_t c = 0; c < rn; ++c) sums[r * rn + c] = e.fma(a, b[c], sums[r * rn + c]);
      }
      return sums;
    };
    Values sums(rm * rn, e.splat(vector, 0.0));
    Value unrolled = e.mul(e.div(t.depth, e.idx(lanes * unroll)), lanes * unroll);
    Value whole = e.mul(e.div(t.depth, e.idx(lanes)), lanes);
    sums = e.loop(e.idx(0), unrolled, lanes * unroll, sums, [&](Value k, const Values& carried) {
      Values next = carried;
      for (int64_t u = 0; u < unroll; ++u) next = step(e.add(k, u * lanes), next, nullptr);
      return next;
    });
    if (unroll > 1)
      sums =
          e.loop(unrolled, whole, lanes, sums, [&](Value k, const Values& c) { return step(k, c, nullptr); });
    auto depth = Emit::known(t.depth);
    if (!depth || *depth % lanes != 0)
      sums = e.choose(
          e.less(whole, t.depth), sums, [&] { return step(whole, sums, e.sub(t.depth, whole)); },
          [&] { return sums; });
    for (int64_t r = 0; r < rm; ++r)
      for (int64_t c = 0; c < rn; ++c) {
        Value sum = vector::ReductionOp::create(e.b, e.loc, vector::CombiningKind::ADD, sums[r * rn + c],
                                                arith::FastMathFlags::reassoc);
        e.store(sum, t.accumulators, e.add(e.mul(e.add(i, r), t.ld), e.add(j, c)));
      }
  };
  e.loop(e.idx(0), t.columns, rn,
         [&](Value j) { e.loop(e.idx(0), t.rows, rm, [&](Value i) { tile(i, j); }); });
  return success();
}

}  // namespace lathe::emit
