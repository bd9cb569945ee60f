// "outer": for few rows and weights stored K by N. Rows of B are streamed along N, register_n columns wide,
// and met by one broadcast element of A for each of register_m rows; nothing is packed, and without an
// epilogue the sums go from registers to D.
//
// With tile_k, K is walked in blocks of so few rows that each is read in one run, along all columns of the
// task, while what comes next is fetched, if anything is; sums wait in scratch from block to block. By one
// group of columns after the other along all of K every few lines are followed by a jump to another row,
// which neither prefetchers nor pages like (M = 1 by 4096 x 4096 on Zen 4: 5.5 ms where reading takes 2.2).
#include "base/dtype.h"
#include "kernels/matmul/cpu/emit.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe::emit {
using namespace mlir;

LogicalResult emit_outer(Emit& e, const CpuTile& t) {
  if (t.b_k_contiguous) return emitError(e.loc, "matmul kernel 'outer' needs B N-contiguous");
  const int64_t rm = t.register_rows, lanes = t.lanes, unroll = t.unroll_k;
  const int64_t passes = ceil_div(t.tile_rows, rm), least_passes = ceil_div(t.least_rows, rm);
  const int64_t line_vectors = std::max<int64_t>(1, 512 / (lanes * t.b.element.getIntOrFloatBitWidth()));
  if (t.register_columns % lanes != 0) return emitError(e.loc, "register_n is not a multiple of lanes");
  if (t.tile_k > 0 && (t.fetch == CpuFetch::kBoth || t.fetch > CpuFetch::kSpread))
    return emitError(e.loc, "matmul kernel 'outer' has stages 1, 2, 4, 5 and 6: what it fetches ahead");
  if (t.pace > 0 && t.tile_k == 0) return emitError(e.loc, "'outer' is held to a pace in blocks of K alone");
  Value last_row = e.sub(t.rows, e.idx(1));
  const Pace pace(e, t);

  // Where the block of K after that at `from` begins, after the last one the first of the columns that the
  // next task has.
  const auto next_block = [&](Value from) -> Value {
    Value next = e.add(from, t.tile_k);
    return e.add(t.b.offset, arith::SelectOp::create(e.b, e.loc, e.less(next, t.depth),
                                                     e.mul(next, t.b.row_stride), e.idx(t.tile_columns)));
  };
  // From what a tile at j reads to what it fetches: as far into the next block (kNext), or kTilesOn on.
  const auto to_fetched = [&](Value from, Value j) -> Value {
    Value block = e.add(t.b.offset, e.mul(from, t.b.row_stride)), to_next = e.sub(next_block(from), block);
    if (t.fetch == CpuFetch::kNext) return to_next;
    Value on = e.idx(kTilesOn * t.register_columns), same = e.less(e.add(j, on), t.columns);
    return e.add(on, arith::SelectOp::create(e.b, e.loc, same, e.idx(0), e.sub(to_next, t.columns)));
  };
  // The next block row by row, whose lines all steps share out: as many as the block has rows, tiles and
  // passes. These are those that the rows take (M = 20 and 48 by 4096 x 4096 on Zen 5, counted as for 32 and
  // 64: 6.3 and 9.5 ms, so 3.7 and 6.9). A step's line is its number by what lines there are to a step.
  constexpr int kFraction = 32;
  const int64_t tiles = ceil_div(t.tile_columns, t.register_columns);
  const int64_t row_lines = ceil_div(tiles * t.register_columns, line_vectors * lanes);
  const int64_t lines_a_step = ceil_div(row_lines, tiles * least_passes);
  Value passes_taken = e.ceil_div(t.rows, e.idx(rm));
  Value step_lines = e.ceil_div(e.idx(row_lines << kFraction), e.mul(passes_taken, tiles));
  const auto fetched_by_row = [&](Value from, Value k, Value j, Value pass) -> Value {
    Value before = e.add(e.mul(e.div(j, e.idx(t.register_columns)), passes_taken), pass);
    Value step = e.add(e.mul(before, t.tile_k), k);
    Value line = arith::ShRUIOp::create(e.b, e.loc, e.mul(step, step_lines), e.idx(kFraction));
    Value row = e.div(line, e.idx(row_lines)), column = e.sub(line, e.mul(row, row_lines));
    return e.add(e.add(next_block(from), e.mul(row, t.b.row_stride)), e.mul(column, line_vectors * lanes));
  };
  // Columns [j, j + vectors * lanes), the last vector masked to `left` columns if given, along K from `from`
  // to `to`.
  auto tile = [&](Value i, Value j, int64_t vectors, Value left, Value from, Value to) {
    Values a_row;
    for (int64_t r = 0; r < rm; ++r) {
      Value row = e.min(e.add(i, r), last_row);
      a_row.push_back(e.add(t.a.offset, t.a_k_contiguous ? e.mul(row, t.a.row_stride) : row));
    }
    // Passes over the rows share out fetching a tile, or a vector behind the whole tiles (whose steps count
    // as a tile's where rows are fetched); those beyond its last lines fetch them again.
    const bool fetches = t.tile_k > 0 && t.fetch != CpuFetch::kNone && !left;
    const bool by_row = t.fetch == CpuFetch::kSpread;
    const int64_t share = by_row ? lines_a_step * line_vectors
                                 : std::min(vectors, round_up(ceil_div(vectors, passes), line_vectors));
    const int locality = t.fetch == CpuFetch::kNear ? kIntoL1 : kIntoL2;
    Value pass = e.div(i, e.idx(rm)), ahead;
    if (fetches && !by_row)
      ahead = e.add(to_fetched(from, j), e.mul(e.min(e.mul(pass, share), e.idx(vectors - share)), lanes));
    auto step = [&](Value k, Values sums) {
      Value b_row = e.add(t.b.offset, e.add(e.mul(k, t.b.row_stride), j));
      Values b;
      for (int64_t v = 0; v < vectors; ++v) {
        Value at = e.add(b_row, v * lanes);
        b.push_back(e.to_f32(left && v == vectors - 1 ? e.load_masked(t.b.memory, at, lanes, left)
                                                      : e.load_vector(t.b.memory, at, lanes)));
      }
      if (fetches) {
        Value at = by_row ? fetched_by_row(from, e.sub(k, from), j, pass) : e.add(b_row, ahead);
        for (int64_t v = 0; v < share; v += line_vectors)
          e.prefetch(t.b.memory, e.add(at, v * lanes), locality);
      }
      for (int64_t r = 0; r < rm; ++r) {
        Value at = e.add(a_row[r], t.a_k_contiguous ? k : e.mul(k, t.a.row_stride));
        Value a = e.broadcast(e.to_f32(e.load(t.a.memory, at)), lanes);
        for (int64_t v = 0; v < vectors; ++v) sums[r * vectors + v] = e.fma(a, b[v], sums[r * vectors + v]);
      }
      return sums;
    };
    const auto column = [&](int64_t v) { return e.add(j, v * lanes); };
    const auto sum_at = [&](int64_t r, int64_t v) { return e.add(e.mul(e.add(i, r), t.ld), column(v)); };
    Values sums(rm * vectors, e.splat(e.vec(lanes, e.f32()), 0.0));
    for (int64_t n = 0; t.tile_k > 0 && n < rm * vectors; ++n)
      sums[n] = e.load_vector(t.accumulators, sum_at(n / vectors, n % vectors), lanes);
    Value unrolled = e.add(from, e.mul(e.div(e.sub(to, from), e.idx(unroll)), unroll));
    sums.push_back(pace.start());
    sums = e.loop(from, unrolled, unroll, sums, [&](Value k, const Values& carried) {
      Values next = carried;
      Value late = next.pop_back_val();
      for (int64_t u = 0; u < unroll; ++u) next = step(e.add(e.add(k, late), u), next);
      next.push_back(pace.next(e, late));
      return next;
    });
    sums.pop_back();
    if (unroll > 1)
      sums = e.loop(unrolled, to, 1, sums, [&](Value k, const Values& c) { return step(k, c); });
    for (int64_t r = 0; r < rm; ++r) {
      Value row = e.add(i, r);
      if (t.sink)
        e.when(e.less(row, t.rows), [&] {
          for (int64_t v = 0; v < vectors; ++v)
            t.sink.store(sums[r * vectors + v], row, column(v), v == vectors - 1 ? left : Value());
        });
      else
        for (int64_t v = 0; v < vectors; ++v)
          e.store_vector(sums[r * vectors + v], t.accumulators, sum_at(r, v));
    }
  };
  const int64_t rn = t.register_columns;
  Value wide = e.mul(e.div(t.columns, e.idx(rn)), rn), whole = e.mul(e.div(t.columns, e.idx(lanes)), lanes);
  auto along_columns = [&](Value from, Value to) {
    auto rows = [&](Value j, int64_t vectors, Value left) {
      e.loop(e.idx(0), t.rows, rm, [&](Value i) { tile(i, j, vectors, left, from, to); });
    };
    e.loop(e.idx(0), wide, rn, [&](Value j) { rows(j, rn / lanes, nullptr); });
    if (const auto columns = Emit::known(t.columns)) {
      const int64_t rest = *columns % rn, part = rest % lanes;
      if (rest > 0) rows(wide, ceil_div(rest, lanes), part > 0 ? e.idx(part) : Value());
      return;
    }
    if (rn > lanes) e.loop(wide, whole, lanes, [&](Value j) { rows(j, 1, nullptr); });
    e.when(e.less(whole, t.columns), [&] { rows(whole, 1, e.sub(t.columns, whole)); });
  };
  if (t.tile_k == 0) {
    along_columns(e.idx(0), t.depth);
    return success();
  }
  Value zero = e.splat(e.vec(lanes, e.f32()), 0.0);
  e.loop(e.idx(0), e.idx(passes * rm), 1, [&](Value i) {
    e.loop(e.idx(0), t.columns, lanes,
           [&](Value j) { e.store_vector(zero, t.accumulators, e.add(e.mul(i, t.ld), j)); });
  });
  e.loop(e.idx(0), t.depth, t.tile_k, [&](Value k) { along_columns(k, e.min(e.add(k, t.tile_k), t.depth)); });
  return success();
}

}  // namespace lathe::emit
