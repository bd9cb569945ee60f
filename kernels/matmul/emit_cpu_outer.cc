// "outer": for few rows and weights stored K by N. Rows of B are streamed along N, register_n columns wide,
// and met by one broadcast element of A for each of register_m rows; nothing is packed, and without an
// epilogue the sums go from registers to D.
#include "kernels/matmul/emit_cpu.h"

namespace lathe::emit {
using namespace mlir;

LogicalResult emit_outer(Emit& e, const CpuTile& t) {
  if (t.b_k_contiguous) return emitError(e.loc, "matmul kernel 'outer' needs B N-contiguous");
  const int64_t rm = t.register_rows, lanes = t.lanes, unroll = t.unroll_k;
  if (t.register_columns % lanes != 0) return emitError(e.loc, "register_n is not a multiple of lanes");
  Value last_row = e.sub(t.rows, e.idx(1));

  // Columns [j, j + vectors * lanes), the last vector masked to `left` columns if given.
  auto tile = [&](Value i, Value j, int64_t vectors, Value left) {
    Values a_row;
    for (int64_t r = 0; r < rm; ++r) {
      Value row = e.min(e.add(i, r), last_row);
      a_row.push_back(e.add(t.a.offset, t.a_k_contiguous ? e.mul(row, t.a.row_stride) : row));
    }
    auto step = [&](Value k, Values sums) {
      Value b_row = e.add(t.b.offset, e.add(e.mul(k, t.b.row_stride), j));
      Values b;
      for (int64_t v = 0; v < vectors; ++v) {
        Value at = e.add(b_row, v * lanes);
        b.push_back(e.to_f32(left ? e.load_masked(t.b.memory, at, lanes, left)
                                  : e.load_vector(t.b.memory, at, lanes)));
      }
      for (int64_t r = 0; r < rm; ++r) {
        Value at = e.add(a_row[r], t.a_k_contiguous ? k : e.mul(k, t.a.row_stride));
        Value a = e.broadcast(e.to_f32(e.load(t.a.memory, at)), lanes);
        for (int64_t v = 0; v < vectors; ++v) sums[r * vectors + v] = e.fma(a, b[v], sums[r * vectors + v]);
      }
      return sums;
    };
    Values sums(rm * vectors, e.splat(e.vec(lanes, e.f32()), 0.0));
    Value unrolled = e.mul(e.div(t.depth, e.idx(unroll)), unroll);
    sums = e.loop(e.idx(0), unrolled, unroll, sums, [&](Value k, const Values& carried) {
      Values next = carried;
      for (int64_t u = 0; u < unroll; ++u) next = step(e.add(k, u), next);
      return next;
    });
    if (unroll > 1)
      sums = e.loop(unrolled, t.depth, 1, sums, [&](Value k, const Values& c) { return step(k, c); });
    const auto column = [&](int64_t v) { return e.add(j, v * lanes); };
    for (int64_t r = 0; r < rm; ++r) {
      Value row = e.add(i, r);
      if (t.store)
        e.when(e.less(row, t.rows), [&] {
          for (int64_t v = 0; v < vectors; ++v) t.store(sums[r * vectors + v], row, column(v), left);
        });
      else
        for (int64_t v = 0; v < vectors; ++v)
          e.store_vector(sums[r * vectors + v], t.accumulators, e.add(e.mul(row, t.ld), column(v)));
    }
  };
  auto rows = [&](Value j, int64_t vectors, Value left) {
    e.loop(e.idx(0), t.rows, rm, [&](Value i) { tile(i, j, vectors, left); });
  };
  const int64_t rn = t.register_columns;
  Value wide = e.mul(e.div(t.columns, e.idx(rn)), rn), whole = e.mul(e.div(t.columns, e.idx(lanes)), lanes);
  e.loop(e.idx(0), wide, rn, [&](Value j) { rows(j, rn / lanes, nullptr); });
  if (rn > lanes) e.loop(wide, whole, lanes, [&](Value j) { rows(j, 1, nullptr); });
  e.when(e.less(whole, t.columns), [&] { rows(whole, 1, e.sub(t.columns, whole)); });
  return success();
}

}  // namespace lathe::emit
