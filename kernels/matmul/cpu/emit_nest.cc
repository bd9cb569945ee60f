#include "kernels/matmul/cpu/emit_nest.h"

#include "base/dtype.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe::emit {
using namespace mlir;

namespace {

class Loops {
 public:
  Loops(Emit& emit, const CpuTile& tile, const CpuNest& cpu_nest)
      : e(emit), t(tile), nest(cpu_nest), rm(t.register_rows), rn(nest.pass_columns), lanes(t.lanes) {}

  void groups() {
    const auto group = [&](Value column0, Value columns) {
      NestBlock block{column0, columns, nullptr, nullptr};
      if (nest.begin_group) nest.begin_group(block);
      k_blocks(block);
      if (nest.end_group) nest.end_group(block);
    };
    const int64_t size = nest.group_columns;
    if (size == 0) return group(e.idx(0), t.columns);
    e.loop(e.idx(0), t.columns, size, [&](Value j0) { group(j0, e.min(e.idx(size), e.sub(t.columns, j0))); });
  }

 private:
  void k_blocks(const NestBlock& group) {
    const auto body = [&](Value k0, Value depth) {
      const NestBlock block{group.column0, group.columns, k0, depth};
      if (nest.begin_block) nest.begin_block(block);
      nest.rows_first ? rows_first(block) : columns_first(block);
    };
    if (t.tile_k == 0) return body(e.idx(0), t.depth);
    e.loop(e.idx(0), t.depth, t.tile_k,
           [&](Value k0) { body(k0, e.min(e.idx(t.tile_k), e.sub(t.depth, k0))); });
  }

  // --- rows first
  void rows_first(const NestBlock& block) {
    Value panel = e.idx(nest.panel);
    if (t.copy_ahead) return rows_ahead(block, panel);
    const auto packed = [&](Value i, Value at_row) {
      if (nest.pack_rows) nest.pack_rows(block, i, panel);
      columns_of(block, {i, at_row, rm, panel, false});
    };
    const auto in_place = [&](Value i, Value at_row) { columns_of(block, {i, at_row, rm, panel, true}); };
    const auto rows = [&](Value i, Value at_row) {
      if (t.a_in_place && nest.packs_last_rows)
        e.choose(
            e.less(t.rows, e.add(i, rm)), {}, [&] { return packed(i, at_row), Values{}; },
            [&] { return in_place(i, at_row), Values{}; });
      else
        t.a_in_place ? in_place(i, at_row) : packed(i, at_row);
    };
    if (t.piece) return pieces(block, rows);
    e.loop(e.idx(0), t.rows, rm, [&](Value i) { rows(i, i); });
  }
  // Two panels take turns: the micro-kernel copies the next rows into the other one.
  void rows_ahead(const NestBlock& block, Value panel) {
    Value both = e.idx(2 * nest.panel + nest.panel_words);
    nest.pack_rows(block, e.idx(0), panel);
    e.loop(e.idx(0), t.rows, rm, {panel}, [&](Value i, const Values& now) -> Values {
      const NextPanel next{e.sub(both, now[0]), e.add(i, rm)};
      columns_of(block, {i, i, rm, now[0], false, &next});
      return {next.panel};
    });
  }
  // After a piece is complete, in the last K block, it is transposed, and written to D while the next one is computed;
  // one more iteration writes the last piece.
  void pieces(const NestBlock& block, const std::function<void(Value i, Value at_row)>& rows) {
    Value ends = t.is_one_block() ? Value() : e.less(t.depth, e.add(block.k0, t.tile_k + 1));
    Value piece = e.idx(t.piece);
    const auto rows_from = [&](Value i) { return e.min(piece, e.sub(t.rows, e.min(i, t.rows))); };
    Value turns = e.add(e.ceil_div(t.rows, piece), 1);
    e.loop(e.idx(0), e.mul(turns, t.piece), t.piece, [&](Value i0) {
      Value count = rows_from(i0), before = e.sub(i0, e.min(i0, piece));
      Value at = t.is_one_block() ? e.idx(0) : i0, writes = e.less(e.idx(0), i0);
      if (ends) writes = arith::AndIOp::create(e.b, e.loc, writes, ends);
      e.loop(e.idx(0), piece, rm, [&](Value r) {
        e.when(writes, [&] { t.write(before, rows_from(before), e.div(r, e.idx(rm))); });
        e.when(e.less(r, count), [&] { rows(e.add(i0, r), e.add(at, r)); });
      });
      const auto turn = [&] { t.turn(at, count); };
      ends ? e.when(ends, turn) : turn();
    });
  }
  void columns_of(const NestBlock& block, const NestRows& rows) {
    if (nest.begin_rows) nest.begin_rows(block, rows);
    columns(block, rows.next != nullptr, [&](const NestColumns& c) { nest.tile(block, rows, c); });
  }

  // --- columns first
  void columns_first(const NestBlock& block) {
    columns(block, false, [&](const NestColumns& c) {
      if (nest.begin_columns) nest.begin_columns(block, c.j);
      if (!nest.tile) return;
      Value from = e.idx(0);
      for (int64_t count = rm; count > 0; count = narrower(count)) from = passes(block, c, from, count);
    });
  }
  // After the passes of `count` rows come passes of this many (`narrowest_rows`); 0: there are none.
  int64_t narrower(int64_t count) const {
    return t.narrowest_rows > 0 && count / 2 >= t.narrowest_rows ? count / 2 : 0;
  }
  // Passes of `count` rows, from row `from` to the first row for which a narrower pass is enough. Returns that row.
  Value passes(const NestBlock& block, const NestColumns& c, Value from, int64_t count) {
    Value to = t.rows;
    if (t.narrowest_rows > 0) {
      const int64_t padding = narrower(count) > 0 ? t.narrowest_rows - 1 : count - 1;
      to = e.add(from, e.mul(e.div(e.add(e.sub(t.rows, from), padding), e.idx(count)), count));
    }
    e.loop(from, to, count, [&](Value i) { nest.tile(block, {i, i, count, nullptr, t.a_in_place}, c); });
    return to;
  }

  // --- the columns of a block
  using Body = std::function<void(const NestColumns&)>;
  // `first_differs`: the pass over the first columns is not like the others.
  void columns(const NestBlock& block, bool first_differs, const Body& body) {
    const auto whole = [&](Value from, Value to) {
      e.loop(from, to, rn, [&](Value j) { body({j, rn / lanes, lanes, nullptr}); });
    };
    switch (nest.passes) {
      case ColumnPasses::kWhole: return whole(e.idx(0), block.columns);
      case ColumnPasses::kFirstApart:
        body({e.idx(0), rn / lanes, lanes, nullptr, true});
        if (t.tile_columns > rn) whole(e.idx(rn), block.columns);
        return;
      case ColumnPasses::kNarrowLast: return narrow_last(block, first_differs, body);
      case ColumnPasses::kRest: return with_rest(block, body);
    }
  }
  void narrow_last(const NestBlock& block, bool first_differs, const Body& body) {
    Value padded = e.mul(e.div(e.add(block.columns, lanes - 1), e.idx(rn)), rn);
    Value none = e.equal(padded, e.idx(0));
    e.when(e.less(e.idx(0), padded), [&] { body({e.idx(0), rn / lanes, lanes, nullptr, true}); });
    if (t.tile_columns > rn)
      e.loop(e.idx(rn), padded, rn, [&](Value j) { body({j, rn / lanes, lanes, nullptr}); });
    Value left = e.ceil_div(e.sub(block.columns, e.min(padded, block.columns)), e.idx(lanes));
    for (int64_t vectors = t.narrow_passes; vectors < rn / lanes; ++vectors) {
      const auto narrow = [&](bool first) {
        return [&, first] { return body({padded, vectors, lanes, nullptr, first}), Values{}; };
      };
      e.when(e.equal(left, e.idx(vectors)), [&] {
        if (!first_differs || t.tile_columns <= rn)
          narrow(true)();
        else
          e.choose(none, {}, narrow(true), narrow(false));
      });
    }
  }
  // What is left of N is one tile if N is known; else it is vector by vector.
  void with_rest(const NestBlock& block, const Body& body) {
    Value wide = e.mul(e.div(block.columns, e.idx(rn)), rn);
    Value whole = e.mul(e.div(block.columns, e.idx(lanes)), lanes);
    e.loop(e.idx(0), wide, rn, [&](Value j) { body({j, rn / lanes, lanes, nullptr}); });
    if (const auto known = Emit::known(block.columns)) {
      const int64_t rest = *known % rn, part = rest % lanes, last_lanes = outer_last_lanes(rest, lanes);
      if (rest > 0)
        body({wide, ceil_div(rest, lanes), last_lanes, part % last_lanes > 0 ? e.idx(part) : Value()});
      return;
    }
    if (rn > lanes) e.loop(wide, whole, lanes, [&](Value j) { body({j, 1, lanes, nullptr}); });
    e.when(e.less(whole, block.columns), [&] { body({whole, 1, lanes, e.sub(block.columns, whole)}); });
  }

  Emit& e;
  const CpuTile& t;
  const CpuNest& nest;
  const int64_t rm, rn, lanes;
};

}  // namespace

void emit_nest(Emit& e, const CpuTile& t, const CpuNest& nest) { Loops(e, t, nest).groups(); }

}  // namespace lathe::emit
