// "panel": Goto's form. For every tile_k of K, B's columns are packed into panels of register_n (kept in the
// L2 cache), then each panel of register_m rows of A is packed (L1) and multiplied with all of them. Packing
// converts to f32 and transposes where the operand is K-contiguous, so one micro-kernel serves every layout
// and dtype.
//
// Numeric recipe: within a block of tile_k, one FMA per k in ascending order from zero; blocks added in
// ascending order. It depends on tile_k alone, not on the register tile or the task tile.
#include "base/dtype.h"
#include "kernels/matmul/emit_cpu.h"

namespace lathe::emit {
namespace {
using namespace mlir;

// Panels are [k][width]; the transposing pack stores whole vectors, which may run past the last row by one
// vector.
constexpr int64_t kSlack = 16;

struct PanelSource {
  View view;
  bool k_contiguous;
  Value first;  // row (of A) or column (of B) the panel starts at
  Value count;  // how many are left from there; the panel holds min(width, count) of them
  Value k0, depth;
  int64_t block;  // depth's upper bound, a multiple of lanes
};

// Packs rows that are contiguous along K: blocks of lanes x lanes, transposed in registers.
void pack_transposed(Emit& e, const PanelSource& s, int64_t width, int64_t lanes, Value memory, Value base) {
  const int64_t groups = ceil_div(width, lanes);
  Values row;
  Value last = e.sub(s.count, e.idx(1));
  for (int64_t r = 0; r < width; ++r)
    row.push_back(
        e.add(s.view.offset, e.add(e.mul(e.add(s.first, e.min(e.idx(r), last)), s.view.row_stride), s.k0)));
  Value zero = e.splat(e.vec(lanes, e.f32()), 0.0);
  auto block = [&](Value k, Value left) {
    std::vector<Values> columns;
    for (int64_t g = 0; g < groups; ++g) {
      Values rows(lanes, zero);
      for (int64_t r = 0; r < lanes && g * lanes + r < width; ++r) {
        Value at = e.add(row[g * lanes + r], k);
        rows[r] = e.to_f32(left ? e.load_masked(s.view.memory, at, lanes, left)
                                : e.load_vector(s.view.memory, at, lanes));
      }
      columns.push_back(e.transpose(rows));
    }
    // Ascending order: what a partial vector writes past its row is overwritten by the next row.
    for (int64_t q = 0; q < lanes; ++q)
      for (int64_t g = 0; g < groups; ++g)
        e.store_vector(columns[g][q], memory, e.add(base, e.add(e.mul(e.add(k, q), width), g * lanes)));
  };
  Value whole = e.mul(e.div(s.depth, e.idx(lanes)), lanes);
  e.loop(e.idx(0), whole, lanes, [&](Value k) { block(k, nullptr); });
  e.when(e.less(whole, s.depth), [&] { block(whole, e.sub(s.depth, whole)); });
}

// Packs rows of B (columns of A) that already run along the panel's width.
void pack_copied(Emit& e, const PanelSource& s, int64_t width, int64_t lanes, Value memory, Value base) {
  auto copy = [&](bool full) {
    e.loop(e.idx(0), s.depth, 1, [&](Value k) {
      Value from = e.add(s.view.offset, e.add(e.mul(e.add(s.k0, k), s.view.row_stride), s.first));
      Value to = e.add(base, e.mul(k, width));
      for (int64_t g = 0; g < width; g += lanes) {
        Value at = e.add(from, g);
        Value left = full ? e.idx(width - g) : e.sub(e.min(e.idx(width), s.count), e.min(e.idx(g), s.count));
        Value x = full && width - g >= lanes ? e.load_vector(s.view.memory, at, lanes)
                                             : e.load_masked(s.view.memory, at, lanes, left);
        e.store_vector(e.to_f32(x), memory, e.add(to, g));
      }
    });
  };
  Value short_of = e.less(s.count, e.idx(width));
  e.choose(
      short_of, {}, [&] { return copy(false), Values{}; }, [&] { return copy(true), Values{}; });
}

void pack(Emit& e, const PanelSource& s, int64_t width, int64_t lanes, Value memory, Value base) {
  if (s.k_contiguous)
    pack_transposed(e, s, width, lanes, memory, base);
  else
    pack_copied(e, s, width, lanes, memory, base);
}

// acc[i..][j..] (+)= A panel * B panel.
void micro_kernel(Emit& e, const CpuTile& t, Value a_base, Value b_base, Value depth, Value i, Value j,
                  Value k0) {
  const int64_t mr = t.config.getRegisterM(), nr = t.config.getRegisterN(), lanes = t.config.getLanes();
  const int64_t vectors = nr / lanes;
  Values sums = e.loop(e.idx(0), depth, 1, Values(mr * vectors, e.splat(e.vec(lanes, e.f32()), 0.0)),
                       [&](Value k, const Values& carried) {
                         Values next = carried, b;
                         Value b_row = e.add(b_base, e.mul(k, nr)), a_row = e.add(a_base, e.mul(k, mr));
                         for (int64_t v = 0; v < vectors; ++v)
                           b.push_back(e.load_vector(t.packing, e.add(b_row, v * lanes), lanes));
                         for (int64_t r = 0; r < mr; ++r) {
                           // A scalar load, a broadcast and an FMA become an FMA with a broadcast memory
                           // operand.
                           Value a = e.broadcast(e.load(t.packing, e.add(a_row, r)), lanes);
                           for (int64_t v = 0; v < vectors; ++v)
                             next[r * vectors + v] = e.fma(a, b[v], next[r * vectors + v]);
                         }
                         return next;
                       });
  auto at = [&](int64_t r, int64_t v) { return e.add(e.mul(e.add(i, r), t.ld), e.add(j, v * lanes)); };
  auto store = [&](bool accumulate) {
    for (int64_t r = 0; r < mr; ++r)
      for (int64_t v = 0; v < vectors; ++v) {
        Value x = sums[r * vectors + v];
        if (accumulate)
          x = arith::AddFOp::create(e.b, e.loc, e.load_vector(t.accumulators, at(r, v), lanes), x);
        e.store_vector(x, t.accumulators, at(r, v));
      }
  };
  e.choose(
      e.equal(k0, e.idx(0)), {}, [&] { return store(false), Values{}; },
      [&] { return store(true), Values{}; });
}

}  // namespace

int64_t panel_packing_elements(ir::KernelConfigAttr config) {
  int64_t b = round_up(config.getTileN(), config.getRegisterN()) * config.getTileK();
  return round_up(b + kSlack, 16) + round_up(config.getRegisterM() * config.getTileK() + kSlack, 16);
}

LogicalResult emit_panel(Emit& e, const CpuTile& t) {
  const int64_t mr = t.config.getRegisterM(), nr = t.config.getRegisterN(), lanes = t.config.getLanes();
  const int64_t kc = t.config.getTileK();
  if (nr % lanes != 0) return emitError(e.loc, "register_n is not a multiple of lanes");
  if (kc <= 0 || kc % lanes != 0) return emitError(e.loc, "tile_k is not a positive multiple of lanes");
  Value a_base = e.idx(round_up(round_up(t.config.getTileN(), nr) * kc + kSlack, 16));

  // A split with nothing in it (K = 0 never comes here) would leave the accumulators unwritten.
  e.loop(e.idx(0), t.depth, kc, [&](Value k0) {
    Value depth = e.min(e.idx(kc), e.sub(t.depth, k0));
    auto panel_base = [&](Value j) { return e.mul(j, kc); };  // j / nr panels of kc * nr
    e.loop(e.idx(0), t.columns, nr, [&](Value j) {
      pack(e, {t.b, t.b_k_contiguous, j, e.sub(t.columns, j), k0, depth, kc}, nr, lanes, t.packing,
           panel_base(j));
    });
    e.loop(e.idx(0), t.rows, mr, [&](Value i) {
      pack(e, {t.a, t.a_k_contiguous, i, e.sub(t.rows, i), k0, depth, kc}, mr, lanes, t.packing, a_base);
      e.loop(e.idx(0), t.columns, nr,
             [&](Value j) { micro_kernel(e, t, a_base, panel_base(j), depth, i, j, k0); });
    });
  });
  return success();
}

}  // namespace lathe::emit
