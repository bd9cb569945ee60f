// The kernels of Goto's form (ACM TOMS 34(3), 2008). For every tile_k of K, B's columns are packed into
// panels of register_n columns, which stay in L2. Then each panel of register_m rows of A is packed, which
// stays in L1, and multiplied with all of them. Packing converts to words (CpuWords), so one micro-kernel
// serves every layout and dtype. A panel of B is [word of K][register_n] and is read as vectors; a panel of
// A is [register_m][word of K] and is read as scalars. The operand that lies the other way in memory is
// transposed in registers.
//
// "panel_t": the transposed product. "packed": B was packed in advance (core/packed.h); a register tile
// takes several of its panels side by side, and pairs of bf16 that are multiplied as f32 are two steps
// along K. "direct" (transposed) and "direct_a": the rows are read in place. "direct_packed": as
// "direct_a", with panels of f32 converted from those packed in advance.
//
// Numeric recipe: within a block of tile_k, one FMA per k in ascending order from zero; blocks added in
// ascending order. It depends on tile_k alone, not on the register tile or the task tile.
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "compiler/ukernel.h"
#include "core/packed.h"
#include "kernels/matmul/cpu/emit.h"
#include "kernels/matmul/cpu/emit_in_place.h"
#include "kernels/matmul/cpu/emit_nest.h"
#include "kernels/matmul/cpu/emit_pack.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe::emit {
namespace {
using namespace mlir;

// Panels are written in whole vectors, which may run past their end by one.
constexpr int64_t kSlack = 16;
constexpr int64_t kLineWords = 16;  // of a cache line

// Whether panels of B packed in advance are read in place.
bool panels_in_place(const CpuTile& t) { return t.packed_word && !t.a_in_place; }
int64_t b_words(const CpuTile& t) {
  if (panels_in_place(t)) return 0;
  return round_up(round_up(t.tile_columns, t.register_columns) * panel_depth(t) + kSlack, 16);
}
int64_t a_words(const CpuTile& t) {
  if (t.a_in_place) return 0;
  return round_up(t.register_rows * row_pitch(t) + kSlack, 16);
}

// Whether B was packed in pairs of bf16 that are multiplied as f32.
bool comes_in_pairs(const CpuTile& t) { return t.packed_word > t.words.per_lane(); }

int64_t a_panels(const CpuTile& t) { return t.copy_ahead ? 2 : 1; }

// What sums start from: 0, or the negated contribution of shifted words (CpuWords::shifted) and of a zero
// point. B's words are shifted when they are packed, which adds to each row of A; words of A in place are
// shifted when they are read, which adds to each column of B. These start values, one word per row of A's
// panel and in the latter case one per column, follow the panels in the packing memory.
bool shifts_in_place(const CpuTile& t) { return t.a_in_place && t.words.shifts(); }
bool has_first(const CpuTile& t) { return t.zero_point || (t.words.shifts() && !t.a_in_place); }
Value first_at(Emit& e, const CpuTile& t, Value r) {
  return e.add(e.idx(b_words(t) + a_panels(t) * a_words(t)), r);
}
int64_t first_words(const CpuTile& t) { return has_first(t) ? round_up(t.register_rows, 16) : 0; }
int64_t first_of_columns(const CpuTile& t) {
  return shifts_in_place(t) ? round_up(t.tile_columns, t.register_columns) : 0;
}
Value first_of_columns_at(Emit& e, const CpuTile& t, Value j) {
  return first_at(e, t, e.add(j, first_words(t)));
}
// Start values of the rows from i on in K block k0, packed at `a_base` or in place. Packed rows are summed
// side by side: independent chains hide the latency.
void store_first(Emit& e, const CpuTile& t, Value i, Value k0, Value a_base, Value depth) {
  if (!has_first(t)) return;
  const auto store = [&](Value r, Value lane_sums) {
    const bool shifted = t.words.shifts() && !t.a_in_place;
    Value first = shifted ? t.words.reduce(t.words.unshift(lane_sums)) : e.i32(0);
    if (t.zero_point) first = t.words.sub(first, t.words.mul(t.words.reduce(lane_sums), t.zero_point));
    e.store(arith::BitcastOp::create(e.b, e.loc, e.f32(), first), t.packing, first_at(e, t, r));
  };
  const int64_t mr = t.register_rows;
  if (t.a_in_place)
    return e.loop(e.idx(0), e.idx(mr), 1, [&](Value r) {
      store(r, sum_along_k(e, t.words, t.a, row_of_a(e, t, e.add(i, r), k0), depth));
    });
  const Values sums = e.loop(e.idx(0), e.ceil_div(depth, e.idx(t.words.width())), 1,
                             Values(mr, t.words.zero_sums()), [&](Value v, const Values& before) {
                               Values after;
                               for (int64_t r = 0; r < mr; ++r) {
                                 Value at = e.add(e.add(a_base, r * row_pitch(t)), e.mul(v, t.lanes));
                                 Value a = t.words.words_of(e.load_vector(t.packing, at, t.lanes));
                                 after.push_back(t.words.add_a(a, before[r]));
                               }
                               return after;
                             });
  for (int64_t r = 0; r < mr; ++r) store(e.idx(r), sums[r]);
}
// Start values of the columns from j on, whose panel is at `base`.
void store_first_of_columns(Emit& e, const CpuTile& t, Value j, Value base, Value depth) {
  if (!shifts_in_place(t)) return;
  for (int64_t at = 0; at < t.register_columns; at += t.lanes) {
    Value words = e.ceil_div(depth, e.idx(t.words.per_lane()));
    Values sum = e.loop(e.idx(0), words, 1, {t.words.zero_sums()}, [&](Value k, const Values& x) {
      Value from = e.add(e.add(base, at), e.mul(k, t.register_columns));
      return Values{t.words.add_a(t.words.words_of(e.load_vector(t.packing, from, t.lanes)), x[0])};
    });
    e.store_vector(t.words.to_scratch(t.words.unshift(sum[0])), t.packing,
                   first_of_columns_at(e, t, e.add(j, at)));
  }
}
// Words of packing memory before the addresses of lines to prefetch.
int64_t packed_words(const CpuTile& t) {
  return b_words(t) + a_panels(t) * a_words(t) + first_words(t) + first_of_columns(t);
}
// Start values of every row of a panel by `vectors` vectors from column j on.
Values first_sums(Emit& e, const CpuTile& t, Value j, int64_t vectors) {
  Values sums;
  for (int64_t r = 0; r < t.register_rows; ++r)
    for (int64_t at = 0; at < vectors * t.lanes; at += t.lanes) {
      Value first = t.words.zero_sums();
      if (shifts_in_place(t))
        first = t.words.sums_of(e.load_vector(t.packing, first_of_columns_at(e, t, e.add(j, at)), t.lanes));
      if (has_first(t)) {
        Value of_row = e.broadcast(e.load(t.packing, first_at(e, t, e.idx(r))), t.lanes);
        first = shifts_in_place(t) ? t.words.add(first, t.words.sums_of(of_row)) : t.words.sums_of(of_row);
      }
      sums.push_back(first);
    }
  return sums;
}

// Where `vectors` vectors of columns j.. of B begin, and the distance of a step along K (with pairs, two):
// in a panel packed here, or in panels packed in advance.
struct PanelB {
  Value memory;
  Values vectors;
  int64_t pitch;
};
PanelB panel_b(Emit& e, const CpuTile& t, Value j, Value k0, int64_t vectors) {
  PanelB b{t.packing, {}, t.register_columns};
  const int64_t columns = vectors * t.lanes;
  if (!panels_in_place(t)) {
    Value base = e.mul(j, panel_depth(t));  // the panel number j / register_columns
    for (int64_t at = 0; at < columns; at += t.lanes) b.vectors.push_back(e.add(base, at));
    return b;
  }
  b.memory = t.b.memory, b.pitch = kPackedColumns * t.packed_word;
  // Columns past the last panel read it again.
  Value last = last_panel(e, t);
  for (int64_t at = 0; at < columns; at += t.lanes) {
    Value column = e.add(j, at / kPackedColumns * kPackedColumns);
    if (at >= kPackedColumns) column = e.min(column, last);
    b.vectors.push_back(e.add(panel_at(e, t, column, k0), at % kPackedColumns * t.packed_word));
  }
  return b;
}
Value load_b(Emit& e, const CpuTile& t, const PanelB& b, int64_t vector, Value k) {
  Value at = e.add(b.vectors[vector], e.mul(k, b.pitch));
  if (panels_in_place(t)) return t.words.shifted(t.words.along_k(t.b, at, nullptr));
  return t.words.words_of(e.load_vector(b.memory, at, t.lanes));
}

// Runs `step` for every word of K. Beside it copies the next panel of A, and prefetches the panel after that, a cache
// line of one row per step, row by row. There is an outer iteration for every word of a cache line.
Values steps_beside(Emit& e, const CpuTile& t, const NextPanel& next, const NestBlock& block, Values sums,
                    const std::function<Values(Value, const Values&)>& step) {
  const int64_t mr = t.register_rows, elements = line_elements(t), width = t.words.width();
  const auto total = Emit::known(t.depth);
  const bool ragged = !total || *total % elements != 0;
  Value depth = block.depth;
  Value words = e.ceil_div(depth, e.idx(t.words.per_lane())), lines = e.ceil_div(depth, e.idx(elements));
  const auto begin_of = [&](Value row) { return row_of_a(e, t, row, block.k0); };
  return e.loop(e.idx(0), e.idx(line_words(t)), 1, sums, [&](Value part, const Values& carried) {
    Value r = e.min(part, e.idx(mr - 1));  // past the last row the last one again
    Value from = begin_of(e.add(next.row, r)), fetched = begin_of(e.add(next.row, e.add(r, mr)));
    Value to = e.add(next.panel, e.mul(r, row_pitch(t))), begin = e.mul(part, lines);
    return e.loop(begin, e.min(e.add(begin, lines), words), 1, carried, [&](Value k, const Values& now) {
      Value line = e.mul(e.sub(k, begin), elements);
      e.prefetch(t.a.memory, e.add(fetched, line), kIntoL2);
      for (int64_t v = 0; v < elements; v += width) {
        Value at = e.add(line, v), left = ragged ? e.sub(depth, e.min(at, depth)) : Value();
        Value x = t.words.to_scratch(t.words.along_k(t.a, e.add(from, at), left));
        e.store_vector(x, t.packing, e.add(to, t.words.count(at)));
      }
      return step(k, now);
    });
  });
}

// Runs `step` `count` times at the tile's pace.
Values steps_paced(Emit& e, const CpuTile& t, Value count, const Values& sums,
                   const std::function<Values(Value, const Values&)>& step) {
  return paced_loop(e, t, e.idx(0), count, 1, sums,
                    [&](Value k, Value late, const Values& now) { return step(e.add(k, late), now); });
}

// Runs `pair` for every pair of words of K; the last time without the second word if K is odd.
Values steps_of_pairs(Emit& e, const CpuTile& t, Value depth, Values sums,
                      const std::function<Values(Value p, const Values&, bool whole)>& pair) {
  Value pairs = e.div(depth, e.idx(2));
  sums = steps_paced(e, t, pairs, sums, [&](Value p, const Values& now) { return pair(p, now, true); });
  const auto total = Emit::known(t.depth);
  if (total && *total % 2 == 0) return sums;
  return e.choose(
      e.less(e.mul(pairs, 2), depth), sums, [&] { return pair(pairs, sums, false); }, [&] { return sums; });
}

// Passes a register tile's sums from (i, j) on, those that exist, to `t.sink`.
void store_rows(Emit& e, const CpuTile& t, const Values& sums, Value i, Value j, int64_t vectors) {
  const auto rows = [&](bool whole) {
    for (int64_t r = 0; r < t.register_rows; ++r) {
      Value row = e.add(i, r);
      e.when(e.less(row, t.rows), [&] {
        for (int64_t v = 0; v < vectors; ++v) {
          Value column = e.add(j, v * t.lanes);
          Value left = whole ? Value() : e.sub(t.columns, e.min(column, t.columns));
          t.sink.store(sums[r * vectors + v], row, column, left);
        }
      });
    }
    return Values{};
  };
  e.choose(
      e.less(t.columns, e.add(j, vectors * t.lanes)), {}, [&] { return rows(false); },
      [&] { return rows(true); });
}

// One call of the micro-kernel: acc[at_row..][j..] (+)= A panel * B panel, for a register tile over a K block.
struct MicroTile {
  const NestBlock& block;
  const NestRows& rows;
  const NestColumns& columns;
  Fetching fetching;
};

class MicroKernel {
 public:
  MicroKernel(Emit& emit, const CpuTile& tile, const MicroTile& micro)
      : e(emit),
        t(tile),
        m(micro),
        mr(t.register_rows),
        vectors(m.columns.vectors),
        j(m.columns.j),
        panel(panel_b(e, t, j, m.block.k0, vectors)) {
    for (int64_t r = 0; r < mr && t.a_in_place; ++r)
      in_place.push_back(row_of_a(e, t, e.add(m.rows.i, r), m.block.k0));
  }
  void emit() {
    const Values sums = over_k(first_sums(e, t, j, vectors));
    if (t.sink) return store_rows(e, t, sums, m.rows.i, j, vectors);
    e.choose(
        e.equal(m.block.k0, e.idx(0)), {}, [&] { return store(sums, false), Values{}; },
        [&] { return store(sums, true), Values{}; });
  }

 private:
  Values over_k(const Values& sums) {
    const auto one = [&](Value k, const Values& carried) { return step(k, carried); };
    if (t.a_in_place)
      return steps_in_place(e, t, beside_block(m.fetching), packed_words(t), m.block.depth, sums, one);
    if (comes_in_pairs(t))
      return steps_of_pairs(e, t, m.block.depth, sums, [&](Value p, const Values& carried, bool whole) {
        return pair(p, carried, whole);
      });
    if (m.rows.next != nullptr && m.columns.first)
      return steps_beside(e, t, *m.rows.next, m.block, sums, one);
    if (t.fetch == CpuFetch::kSpread) return steps_spread(sums, one);
    return steps_paced(e, t, e.ceil_div(m.block.depth, e.idx(t.words.per_lane())), sums, one);
  }
  void prefetch_row_of_b(Value row) {
    Value from = e.add(t.b.offset, e.add(e.mul(e.min(row, e.sub(t.depth, e.idx(1))), t.b.row_stride), j));
    for (int64_t at = 0; at < vectors * t.lanes; at += elements_of_line(t.b))
      e.prefetch(t.b.memory, e.add(from, at), kIntoL2);
  }
  // Passes that share the prefetching of rows in place also prefetch the next K block of their columns, a row of B with
  // every line.
  Fetching beside_block(Fetching f) {
    const int64_t lines = t.tile_k / (t.unroll_k * f.passes);  // of a pass' share
    if (t.fetch != CpuFetch::kBoth || f.passes == 1 || lines == 0) return f;
    const int64_t rows = ceil_div(t.tile_k, lines * ceil_div(t.tile_rows, mr));  // of B, per line
    f.beside = [this, lines, rows](Value line) {
      Value before = e.mul(e.add(e.mul(e.div(m.rows.i, e.idx(mr)), lines), line), rows);
      for (int64_t r = 0; r < rows; ++r) {
        Value at = e.min(e.add(before, r), e.idx(t.tile_k - 1));  // past the last row the last one again
        prefetch_row_of_b(e.add(e.add(m.block.k0, t.tile_k), at));
      }
    };
    return f;
  }
  // Prefetches this pass's share of the next K block of its columns, a row of B at a time.
  Values steps_spread(const Values& sums, const std::function<Values(Value, const Values&)>& one) {
    Value words = e.ceil_div(m.block.depth, e.idx(t.words.per_lane()));
    Value share = e.ceil_div(e.idx(t.tile_k), e.ceil_div(t.rows, e.idx(mr)));  // rows of B
    Value first = e.add(e.add(m.block.k0, t.tile_k), e.mul(e.div(m.rows.i, e.idx(mr)), share));
    Value steps = e.ceil_div(words, share);
    return e.loop(e.idx(0), share, 1, sums, [&](Value turn, const Values& carried) {
      prefetch_row_of_b(e.add(first, turn));
      Value begin = e.min(e.mul(turn, steps), words);
      return e.loop(begin, e.min(e.add(begin, steps), words), 1, carried, one);
    });
  }
  Values step(Value k, const Values& carried) {
    Values b;
    for (int64_t v = 0; v < vectors; ++v) b.push_back(load_b(e, t, panel, v, k));
    fetch(k);
    return multiply(k, b, carried);
  }
  Values pair(Value p, const Values& carried, bool whole) {
    Values b[2];
    for (int64_t v = 0; v < vectors; ++v) {
      const auto halves = t.words.halves(t.b, e.add(panel.vectors[v], e.mul(p, panel.pitch)));
      b[0].push_back(halves.first), b[1].push_back(halves.second);
    }
    fetch(p);
    const Values sums = multiply(e.mul(p, 2), b[0], carried);
    return whole ? multiply(e.add(e.mul(p, 2), 1), b[1], sums) : sums;
  }
  Value a_at(int64_t r, Value k) {
    if (t.a_in_place) return t.words.word_at(t.a, e.add(in_place[r], e.mul(k, t.words.per_lane())));
    return e.load(t.packing, e.add(e.add(m.rows.panel, r * row_pitch(t)), k));
  }
  // Prefetches the panels of B: those that were packed in advance into L2, others from L2 into L1.
  void fetch(Value k) {
    if (t.prefetch_lines == 0) return;
    const bool in_place = panels_in_place(t);
    const int64_t ahead = t.prefetch_lines * (in_place ? elements_of_line(t.b) : kLineWords);
    for (int64_t v = 0; v < vectors; v += std::max<int64_t>(1, kPackedColumns / t.lanes))
      e.prefetch(panel.memory, e.add(panel.vectors[v], e.add(e.mul(k, panel.pitch), ahead)),
                 in_place ? kIntoL2 : kIntoL1);
  }
  Values multiply(Value k, const Values& b, Values sums) {
    // x86 multiplies pairs of bf16 by a broadcast memory operand only if it is the last operand.
    const bool swaps = shifts_in_place(t) || (t.words.per_lane() == 2 && vectors == 1);
    for (int64_t r = 0; r < mr; ++r) {
      // A scalar load, a broadcast and an FMA become an FMA with a broadcast memory operand.
      Value a = t.words.words_of(e.broadcast(a_at(r, k), t.lanes));
      if (shifts_in_place(t)) a = t.words.shifted(a);
      for (int64_t v = 0; v < vectors; ++v) {
        Value& sum = sums[r * vectors + v];
        sum = swaps ? t.words.multiply_add(b[v], a, sum) : t.words.multiply_add(a, b[v], sum);
      }
    }
    return sums;
  }
  void store(const Values& sums, bool accumulate) {
    const auto at = [&](int64_t r, int64_t v) {
      return e.add(e.mul(e.add(m.rows.at_row, r), t.ld), e.add(j, v * t.lanes));
    };
    for (int64_t r = 0; r < mr; ++r)
      for (int64_t v = 0; v < vectors; ++v) {
        Value x = sums[r * vectors + v];
        if (accumulate) x = t.words.add(t.words.sums_of(e.load_vector(t.accumulators, at(r, v), t.lanes)), x);
        e.store_vector(t.words.to_scratch(x), t.accumulators, at(r, v));
      }
  }

  Emit& e;
  const CpuTile& t;
  const MicroTile& m;
  const int64_t mr, vectors;
  Value j;
  PanelB panel;
  Values in_place;  // where the rows of A begin
};

// The micro-kernel in C: d = the panel of A by the panel of B over all of K, plus the start values.
void call_inner_kernel(Emit& e, const CpuTile& t, Value a_base, Value depth, Value i, Value j) {
  Value b_base = e.mul(j, panel_depth(t)), words = e.ceil_div(depth, e.idx(t.words.per_lane()));
  Value first = pointer_to(e, t.packing, first_at(e, t, e.idx(0)));
  Value d = pointer_to(e, t.accumulators, e.add(e.mul(i, t.ld), j));
  call_ukernel(e, t.ukernel, LLVM::LLVMVoidType::get(e.b.getContext()),
               {pointer_to(e, t.packing, a_base), e.idx(row_pitch(t)), pointer_to(e, t.packing, b_base),
                words, first, d, e.idx(t.ld)});
}

// What "panel" and its kin do in the loops.
class Panel {
 public:
  Panel(Emit& emit, const CpuTile& tile)
      : e(emit), t(tile), nr(t.register_columns), passes(ceil_div(t.tile_columns, nr)) {}
  CpuNest nest() {
    CpuNest n;
    n.rows_first = true;
    n.pass_columns = nr;
    n.passes = passes_over_columns();
    n.panel = b_words(t), n.panel_words = a_words(t);
    n.begin_block = [this](const NestBlock& block) { pack_block(block); };
    n.pack_rows = [this](const NestBlock& block, Value i, Value panel) { pack_rows(e, t, block, i, panel); };
    n.begin_rows = [this](const NestBlock& block, const NestRows& rows) {
      store_first(e, t, rows.i, block.k0, rows.panel, block.depth);
      store_next_lines(e, t, packed_words(t), rows.i, block.k0);
    };
    n.tile = [this](const NestBlock& block, const NestRows& rows, const NestColumns& columns) {
      if (t.ukernel) return call_inner_kernel(e, t, rows.panel, block.depth, rows.i, columns.j);
      MicroKernel(e, t, {block, rows, columns, fetching(columns)}).emit();
    };
    return n;
  }

 private:
  // Passes over the same rows are alike, unless the first one prefetches or copies the next rows.
  ColumnPasses passes_over_columns() const {
    if (t.ukernel) return ColumnPasses::kWhole;
    if (t.narrow_passes) return ColumnPasses::kNarrowLast;
    return t.a_in_place && t.fetch != CpuFetch::kNext ? ColumnPasses::kWhole : ColumnPasses::kFirstApart;
  }
  Fetching fetching(const NestColumns& columns) {
    if (t.a_in_place && (t.fetch == CpuFetch::kSpread || t.fetch == CpuFetch::kBoth))
      return {e.div(columns.j, e.idx(nr)), passes};
    // A narrow pass may be the only one.
    const bool fetches = columns.first || columns.vectors < nr / t.lanes;
    return fetches && t.fetch == CpuFetch::kNext ? Fetching{e.idx(0)} : Fetching{};
  }
  void pack_block(const NestBlock& block) {
    if (t.packed_word && t.a_in_place) return pack_panels(e, t, block.k0, block.depth);
    if (t.packed_word) return;
    ColumnPanels panels{nr};
    panels.shifts = !t.a_in_place, panels.fetches = true;
    pack_columns(e, t, block, panels,
                 [&](Value j, Value base) { store_first_of_columns(e, t, j, base, block.depth); });
  }

  Emit& e;
  const CpuTile& t;
  const int64_t nr, passes;
};

// Why rows in place cannot be read so, "" if they can.
std::string in_place_refusal(const CpuTile& t) {
  const auto total = Emit::known(t.depth);
  const bool whole_words = t.words.per_lane() == 1 || (total && *total % t.words.per_lane() == 0);
  if (t.fetch == CpuFetch::kBoth) {
    if (t.packed_word || t.b_k_contiguous || t.b.k_contiguous || t.is_one_block())
      return "prefetch 3 needs B contiguous across K, in several K blocks";
  } else if (t.fetch != CpuFetch::kNext && t.fetch != CpuFetch::kNone && t.fetch != CpuFetch::kSpread) {
    return "prefetch must be 1, 3, 5 or 6";
  }
  if (!(t.a_k_contiguous && t.words.are_stored(t.a) && whole_words))
    return "reading rows in place needs them K-contiguous, in the dtype that is multiplied, and K a whole "
           "number of words";
  if (t.unroll_k > 2) return "unroll_k must be 1 or 2";
  if (t.chains > t.unroll_k) return absl::StrCat("chains ", t.chains, " > unroll_k ", t.unroll_k);
  return "";
}

// Why the next panel of rows cannot be copied beside the FMAs, "" if it can.
std::string copy_ahead_refusal(const CpuTile& t) {
  const auto depth = Emit::known(t.depth);
  if (t.ukernel || comes_in_pairs(t) || !depth || !t.a_k_contiguous || t.a.k_contiguous)
    return "copy_ahead needs a known K, rows contiguous along it, and the generated micro-kernel";
  const PanelRows rows{t.tile_rows, t.register_rows, t.a.element.getIntOrFloatBitWidth(), t.words.per_lane(),
                       t.lanes};
  return rows.copy_ahead(t.tile_k, *depth)
             ? ""
             : "copy_ahead needs a next panel, and K blocks with a step for each of its cache lines";
}

int64_t packing_words(const CpuTile& t) { return packed_words(t) + next_line_words(t); }

std::string refusal(const CpuTile& t) {
  const int64_t nr = t.register_columns;
  if (nr % t.lanes != 0) return "register_n is not a multiple of lanes";
  if (t.packed_word && nr % kPackedColumns != 0)
    return absl::StrCat("register_n is not a multiple of ", kPackedColumns,
                        ", the columns of a packed panel");
  if (t.packed_word && t.a_in_place && t.words.per_lane() > 1) return "multiplies only f32";
  if (t.tile_k <= 0 || t.tile_k % t.words.width() != 0)
    return "tile_k is not a positive multiple of a vector's elements";
  if (t.narrow_passes > least_narrow_pass(t.tile_columns, nr, t.least_columns, t.lanes))
    return absl::StrCat("narrow_passes ", t.narrow_passes, ": the last pass may have fewer vectors");
  if (t.ukernel && !t.is_one_block())
    return absl::StrCat("tile_k ", t.tile_k, " < K ", t.most_depth,
                        ": a ukernel needs all of K in one block");
  if (t.a_in_place) {
    if (std::string why = in_place_refusal(t); !why.empty()) return why;
  } else if (t.fetch == CpuFetch::kSpread &&
             (t.packed_word || t.ukernel || t.b_k_contiguous || t.b.k_contiguous)) {
    return "prefetch 6 needs B contiguous across K, and the generated micro-kernel";
  }
  return t.copy_ahead ? copy_ahead_refusal(t) : "";
}

void emit_tile(Emit& e, const CpuTile& t) {
  Panel panel(e, t);
  emit_nest(e, t, panel.nest());
}

}  // namespace

const CpuForm kPanelForm = {refusal, packing_words, emit_tile};

}  // namespace lathe::emit
