// "outer": for weights stored K by N. Reads rows of B along N, register_n columns at a time, and multiplies them with a
// broadcast element of each of register_m rows of A. Nothing is packed. Few rows of A stream B from memory once; for
// many rows, L2 keeps a register tile's columns (or a K block of the task's columns) until all rows have used them.
//
// With tile_k, K is divided into blocks, each of which is read in one run along all columns of the task while the next
// one is prefetched; sums wait in scratch memory between blocks. Without it, every few cache lines are followed by a
// jump to another row, which defeats prefetchers and the TLB. Many rows hide that; in a batch they prefetch.
// Deep K blocks, for many rows, also prefetch A.
#include "base/dtype.h"
#include "kernels/matmul/cpu/emit.h"
#include "kernels/matmul/cpu/emit_nest.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe::emit {
namespace {
using namespace mlir;

class Outer {
 public:
  Outer(Emit& emit, const CpuTile& tile)
      : e(emit),
        t(tile),
        rm(t.register_rows),
        rn(t.register_columns),
        lanes(t.lanes),
        passes(ceil_div(t.tile_rows, rm)),
        line_vectors(std::max<int64_t>(1, elements_of_line(t.b) / lanes)),
        fetches_a(t.tile_k >= kOuterDeepBlock && passes > 1 && !t.a.lists_rows() &&
                  rm * rn >= kFewestSums * lanes),
        last_row(e.sub(t.rows, e.idx(1))),
        tiles(t.tile_k > 0 ? ceil_div(t.tile_columns, rn) : 1),
        row_lines(ceil_div(tiles * rn, line_vectors * lanes)),
        lines_a_step(ceil_div(row_lines, tiles * ceil_div(t.least_rows, rm))),
        passes_taken(e.ceil_div(t.rows, e.idx(rm))),
        step_lines(e.ceil_div(e.idx(row_lines << kFraction), e.mul(passes_taken, tiles))) {}

  void run() {
    if (t.tile_k > 0) store_zeros();
    CpuNest nest;
    nest.pass_columns = rn;
    nest.passes = ColumnPasses::kRest;
    nest.tile = [this](const NestBlock& block, const NestRows& rows, const NestColumns& c) {
      tile({rows.i, c.j, c.vectors, c.last_lanes, c.left, block.k0, e.add(block.k0, block.depth)});
    };
    emit_nest(e, t, nest);
  }

 private:
  static constexpr int kFraction = 32;  // bits of step_lines' fraction
  // A step of fewer FMAs has no time to compute addresses of A (docs/cpu-speed.md, Products of weights K by N).
  static constexpr int64_t kFewestSums = 18;

  // A register tile: rows from i on, `vectors` vectors of columns from j on, along K from `from` to `to`. The last
  // vector has `last_lanes` lanes, and is masked to `left` columns if given.
  struct Tile {
    Value i, j;
    int64_t vectors, last_lanes;
    Value left, from, to;
  };
  // What a tile prefetches with every step: `share` vectors.
  struct Prefetch {
    bool any = false, by_row = false;
    int64_t share = 0;
    int locality = kIntoL2;
    Value pass, ahead;  // `ahead`: from what is read to what is prefetched, unless by row
    Value a;            // without K blocks: A's rows that come next
  };

  void store_zeros() {
    Value zero = e.splat(e.vec(lanes, e.f32()), 0.0);
    e.loop(e.idx(0), e.idx(passes * rm), 1, [&](Value i) {
      e.loop(e.idx(0), t.columns, lanes,
             [&](Value j) { e.store_vector(zero, t.accumulators, e.add(e.mul(i, t.ld), j)); });
    });
  }

  void tile(const Tile& x) {
    Values a_row;
    for (int64_t r = 0; r < rm; ++r) {
      Value row = e.min(e.add(x.i, r), last_row);
      a_row.push_back(e.add(t.a.offset, t.a_k_contiguous ? row_at(e, t.a, row) : row));
    }
    const Prefetch prefetch = prefetch_of(x);
    const auto step = [&](Value k, const Values& sums) { return this->step(x, a_row, prefetch, k, sums); };
    const int64_t unroll = t.unroll_k;
    Value unrolled = e.add(x.from, e.mul(e.div(e.sub(x.to, x.from), e.idx(unroll)), unroll));
    Values sums = paced_loop(e, t, x.from, unrolled, unroll, first_sums(x),
                             [&](Value k, Value late, const Values& carried) {
                               Values next = carried;
                               for (int64_t u = 0; u < unroll; ++u)
                                 next = step(e.add(e.add(k, late), u), next);
                               return next;
                             });
    if (unroll > 1)
      sums = e.loop(unrolled, x.to, 1, sums, [&](Value k, const Values& c) { return step(k, c); });
    store(x, sums);
  }

  // One k: the tile's vectors of a row of B by an element of each row of A.
  Values step(const Tile& x, const Values& a_row, const Prefetch& prefetch, Value k, Values sums) {
    Value b_row = e.add(t.b.offset, e.add(e.mul(k, t.b.row_stride), x.j));
    Values b;
    for (int64_t v = 0; v < x.vectors; ++v) {
      Value at = e.add(b_row, v * lanes);
      b.push_back(e.to_f32(x.left && v == x.vectors - 1 ? e.load_masked(t.b.memory, at, x.last_lanes, x.left)
                                                        : e.load_vector(t.b.memory, at, lanes_of(x, v))));
    }
    const auto fetch = [&] {
      Value at =
          prefetch.by_row ? fetched_by_row(x, e.sub(k, x.from), prefetch.pass) : e.add(b_row, prefetch.ahead);
      for (int64_t v = 0; v < prefetch.share; v += line_vectors)
        e.prefetch(t.b.memory, e.add(at, v * lanes), prefetch.locality);
    };
    // Without K blocks only a batch gains, since the hardware prefetches rows of A that follow each other.
    if (prefetch.any && t.tile_k == 0)
      e.when(e.less(e.idx(1), t.batch), [&] { fetch(), prefetch_next_rows(prefetch.a, k); });
    else if (prefetch.any)
      fetch();
    if (fetches_a) e.when(e.equal(x.j, e.idx(0)), [&] { prefetch_rows_of_block(x, k); });
    for (int64_t r = 0; r < rm; ++r) {
      Value at = e.add(a_row[r], t.a_k_contiguous ? k : e.mul(k, t.a.row_stride));
      Value a = e.to_f32(e.load(t.a.memory, at));
      for (int64_t v = 0; v < x.vectors; ++v)
        sums[r * x.vectors + v] = e.fma(e.broadcast(a, lanes_of(x, v)), b[v], sums[r * x.vectors + v]);
    }
    return sums;
  }

  int64_t lanes_of(const Tile& x, int64_t v) const { return v == x.vectors - 1 ? x.last_lanes : lanes; }
  Value column(const Tile& x, int64_t v) { return e.add(x.j, v * lanes); }
  Value sum_at(const Tile& x, int64_t r, int64_t v) {
    return e.add(e.mul(e.add(x.i, r), t.ld), column(x, v));
  }
  // 0, or in K blocks the sums so far.
  Values first_sums(const Tile& x) {
    Values sums;
    for (int64_t r = 0; r < rm; ++r)
      for (int64_t v = 0; v < x.vectors; ++v)
        sums.push_back(t.tile_k > 0 ? e.load_vector(t.accumulators, sum_at(x, r, v), lanes_of(x, v))
                                    : e.splat(e.vec(lanes_of(x, v), e.f32()), 0.0));
    return sums;
  }
  void store(const Tile& x, const Values& sums) {
    for (int64_t r = 0; r < rm; ++r) {
      Value row = e.add(x.i, r);
      if (t.sink)
        e.when(e.less(row, t.rows), [&] {
          for (int64_t v = 0; v < x.vectors; ++v)
            t.sink.store(sums[r * x.vectors + v], row, column(x, v), v == x.vectors - 1 ? x.left : Value());
        });
      else
        for (int64_t v = 0; v < x.vectors; ++v)
          e.store_vector(sums[r * x.vectors + v], t.accumulators, sum_at(x, r, v));
    }
  }

  // Passes over the rows divide the prefetching of a tile among them, or of a vector behind the whole tiles
  // (whose steps count as a tile's where rows are prefetched); those past the last line prefetch it again.
  Prefetch prefetch_of(const Tile& x) {
    Prefetch p;
    p.any = t.fetch != CpuFetch::kNoChoice && t.fetch != CpuFetch::kNone && (!x.left || t.tile_k == 0);
    p.by_row = t.fetch == CpuFetch::kSpread;
    if (p.any && t.tile_k == 0) p.a = next_rows(x.i);
    p.share = p.by_row ? lines_a_step * line_vectors
                       : std::min(x.vectors, round_up(ceil_div(x.vectors, passes), line_vectors));
    p.locality = t.fetch == CpuFetch::kNear ? kIntoL1 : kIntoL2;
    p.pass = e.div(x.i, e.idx(rm));
    if (p.any && !p.by_row)
      p.ahead = e.add(to_fetched(x.from, x.j),
                      e.mul(e.min(e.mul(p.pass, p.share), e.idx(x.vectors - p.share)), lanes));
    return p;
  }
  // Where the K block after that at `from` begins; after the last one the first block of the columns of the
  // next task.
  Value next_block(Value from) {
    Value next = e.add(from, t.tile_k);
    return e.add(t.b.offset,
                 select(e, e.less(next, t.depth), e.mul(next, t.b.row_stride), e.idx(t.tile_columns)));
  }
  // From what a tile at j reads to what it prefetches: the same place in the next block (kNext), or kTilesOn
  // tiles further.
  Value to_fetched(Value from, Value j) {
    Value block = e.add(t.b.offset, e.mul(from, t.b.row_stride)), to_next = e.sub(next_block(from), block);
    if (t.fetch == CpuFetch::kNext) return to_next;
    Value on = e.idx(kTilesOn * rn), same = e.less(e.add(j, on), t.columns);
    return e.add(on, select(e, same, e.idx(0), e.sub(to_next, t.columns)));
  }
  // The line that a step along K prefetches: its number times the lines per step, counted row by row through what is
  // read next, the next K block or without K blocks the next tile's columns. All steps of all passes and tiles share
  // these lines evenly. The real M counts: a bucket's largest would leave lines out.
  Value fetched_by_row(const Tile& x, Value k, Value pass) {
    const bool blocks = t.tile_k > 0;
    Value before = blocks ? e.add(e.mul(e.div(x.j, e.idx(rn)), passes_taken), pass) : pass;
    Value step = e.add(e.mul(before, blocks ? e.idx(t.tile_k) : t.depth), k);
    Value line = arith::ShRUIOp::create(e.b, e.loc, e.mul(step, step_lines), e.idx(kFraction));
    Value row = e.div(line, e.idx(row_lines)), column = e.sub(line, e.mul(row, row_lines));
    return e.add(e.add(blocks ? next_block(x.from) : next_columns(x), e.mul(row, t.b.row_stride)),
                 e.mul(column, line_vectors * lanes));
  }
  // Without K blocks: the next tile's columns, of this task or the next; after all columns of a product the first ones
  // of the next product in the batch.
  Value next_columns(const Tile& x) {
    Value next = e.add(x.j, x.vectors * lanes), more = e.add(t.b.offset, next);
    if (!t.b.batch_stride || Emit::known(t.columns) != t.product_columns) return more;
    return select(e, e.less(next, t.columns), more, e.add(t.b.offset, t.b.batch_stride));
  }
  // The rows of A that follow those from i on; after the last ones the first rows of the next product in the batch.
  Value next_rows(Value i) {
    Value next = e.add(i, rm), more = e.add(t.a.offset, e.mul(next, t.a.row_stride));
    if (!t.a.batch_stride) return more;
    return select(e, e.less(next, t.rows), more, e.add(t.a.offset, t.a.batch_stride));
  }
  // Prefetches a cache line of one of these rows of A per step along K, of each row in turn.
  void prefetch_next_rows(Value rows, Value k) {
    if (!t.a_k_contiguous) return;
    Value turn = e.rem(k, e.idx(elements_of_line(t.a))), row = e.min(turn, e.idx(rm - 1));
    Value at = e.add(e.add(rows, e.mul(row, t.a.row_stride)), e.sub(k, turn));
    e.prefetch(t.a.memory, at, kIntoL2);
  }
  // In K blocks: prefetches the rows after those of the tile; after the last rows, the first ones of the next K
  // block. The hardware prefetcher does not follow rows that are read one K block at a time.
  void prefetch_rows_of_block(const Tile& x, Value k) {
    Value next = e.add(x.i, rm), more = e.less(next, t.rows);
    Value row = select(e, more, next, e.idx(0)), at_k = select(e, more, k, e.add(k, t.tile_k));
    if (t.a_k_contiguous) return prefetch_next_rows(e.add(t.a.offset, e.mul(row, t.a.row_stride)), at_k);
    Value last = e.add(row, rm - 1);
    e.prefetch(t.a.memory, e.add(t.a.offset, e.add(e.mul(at_k, t.a.row_stride), last)), kIntoL2);
  }

  Emit& e;
  const CpuTile& t;
  const int64_t rm, rn, lanes, passes;
  const int64_t line_vectors;  // vectors of a cache line, or 1
  const bool fetches_a;        // K blocks prefetch A
  Value last_row;
  const int64_t tiles, row_lines;  // register tiles and cache lines in a row of what is prefetched by row
  const int64_t lines_a_step;      // lines that a step prefetches by row
  Value passes_taken;              // over the rows there are
  Value step_lines;                // lines per step, a fixed-point number
};

std::string refusal(const CpuTile& t) {
  if (t.b_k_contiguous) return "needs B N-contiguous";
  if (t.register_columns % t.lanes != 0) return "register_n is not a multiple of lanes";
  if (t.tile_k > 0 &&
      (t.fetch == CpuFetch::kNoChoice || t.fetch == CpuFetch::kBoth || t.fetch > CpuFetch::kSpread))
    return "prefetch must be 1, 2, 4, 5 or 6";
  if (t.tile_k == 0 && t.fetch != CpuFetch::kNoChoice && t.fetch != CpuFetch::kSpread)
    return "prefetch must be 0 or 6 without a tile_k";
  if (t.pace > 0 && t.tile_k == 0) return "pace needs a tile_k";
  return "";
}

void emit_tile(Emit& e, const CpuTile& t) { Outer(e, t).run(); }

}  // namespace

const CpuForm kOuterForm = {refusal, [](const CpuTile&) { return int64_t{0}; }, emit_tile};

}  // namespace lathe::emit
