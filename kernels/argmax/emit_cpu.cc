// "rows" on the CPU: vectors of running maxima, each lane with the position where it last rose; lanes are
// folded at the end. NaN counts as the maximum and is never replaced.
#include "kernels/argmax/emit_cpu.h"

#include <limits>

#include "compiler/cpu_task.h"
#include "compiler/dialect.h"
#include "kernels/argmax/emit_best.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr double kLowest = -std::numeric_limits<double>::infinity();

Value select(Emit& e, Value c, Value x, Value y) { return arith::SelectOp::create(e.b, e.loc, c, x, y); }

Value constant_columns(Emit& e, int64_t first, int64_t lanes) {
  SmallVector<int32_t> columns;
  for (int64_t l = 0; l < lanes; ++l) columns.push_back(static_cast<int32_t>(first + l));
  return arith::ConstantOp::create(
      e.b, e.loc, DenseElementsAttr::get(e.vec(lanes, e.b.getI32Type()), ArrayRef<int32_t>(columns)));
}

}  // namespace

Best reduce_row(Emit& e, Value columns, int64_t lanes, int64_t unroll, const LoadColumns& load) {
  auto i32 = e.b.getI32Type();
  Value lowest = e.splat(e.vec(lanes, e.f32()), kLowest);
  Value zero = arith::ConstantOp::create(e.b, e.loc, DenseElementsAttr::get(e.vec(lanes, i32), int32_t{0}));
  Values state;  // unroll values, then unroll columns
  for (int64_t u = 0; u < unroll; ++u) state.push_back(lowest);
  for (int64_t u = 0; u < unroll; ++u) state.push_back(zero);
  // The column kept for a lane is the step's first; its own offset is added when lanes are folded.
  auto step = [&](Value k, Values s, int64_t vectors, Value left) {
    Value at = e.broadcast(arith::IndexCastOp::create(e.b, e.loc, i32, k), lanes);
    for (int64_t u = 0; u < vectors; ++u) {
      Value x = load(e.add(k, u * lanes), left);
      Value take = rises(e, x, s[u]);
      s[u] = select(e, take, x, s[u]);
      s[unroll + u] = select(e, take, at, s[unroll + u]);
    }
    return s;
  };
  Value unrolled = e.mul(e.div(columns, e.idx(lanes * unroll)), lanes * unroll);
  Value whole = e.mul(e.div(columns, e.idx(lanes)), lanes);
  state = e.loop(e.idx(0), unrolled, lanes * unroll, state,
                 [&](Value k, const Values& s) { return step(k, s, unroll, nullptr); });
  if (unroll > 1)
    state = e.loop(unrolled, whole, lanes, state,
                   [&](Value k, const Values& s) { return step(k, s, 1, nullptr); });
  state = e.choose(
      e.less(whole, columns), state, [&] { return step(whole, state, 1, e.sub(columns, whole)); },
      [&] { return state; });

  auto best_of = [&](int64_t u) {
    return Best{state[u],
                arith::AddIOp::create(e.b, e.loc, state[unroll + u], constant_columns(e, u * lanes, lanes))};
  };
  Best best = best_of(0);
  for (int64_t u = 1; u < unroll; ++u) best = better(e, best, best_of(u));
  for (int64_t d = lanes / 2; d >= 1; d /= 2) {
    SmallVector<int64_t> rotated;
    for (int64_t l = 0; l < lanes; ++l) rotated.push_back((l + d) % lanes);
    auto rotate = [&](Value x) -> Value { return vector::ShuffleOp::create(e.b, e.loc, x, x, rotated); };
    best = better(e, best, {rotate(best.value), rotate(best.column)});
  }
  auto lane0 = [&](Value x) -> Value {
    return vector::ExtractOp::create(e.b, e.loc, x, ArrayRef<int64_t>{0});
  };
  return {lane0(best.value), lane0(best.column)};
}

Best merge_row(Emit& e, const TileProgram& p) {
  auto op = cast<linalg::GenericOp>(p.argmax);
  const View& values = p.views.find(op.getDpsInputs()[0])->second;
  const View& columns = p.views.find(op.getDpsInputs()[1])->second;
  auto pair = [&](Value s) {
    return Best{e.load(values.memory, e.add(values.offset, e.mul(s, values.row_stride))),
                e.load(columns.memory, e.add(columns.offset, e.mul(s, columns.row_stride)))};
  };
  Best first = pair(e.idx(0));
  Values best = e.loop(e.idx(1), p.depth, 1, {first.value, first.column}, [&](Value s, const Values& b) {
    Best kept = keep_better(e, {b[0], b[1]}, pair(s));
    return Values{kept.value, kept.column};
  });
  return {best[0], best[1]};
}

LogicalResult emit_argmax_cpu(ModuleOp module) {
  return emit_cpu_tasks(module,
                        [](Emit& e, const Arguments& arguments, TileProgram& p) -> llvm::FailureOr<int64_t> {
                          if (!p.argmax)
                            return emitError(e.loc, "an argmax step needs a reduction of values and columns");
                          auto op = cast<linalg::GenericOp>(p.argmax);
                          Value offset = arguments.get("index_offset");
                          if (op.getNumDpsInputs() == 2) {
                            store_best(e, p, e.idx(0), merge_row(e, p), offset);
                            return int64_t{0};
                          }
                          auto config = p.argmax->getAttrOfType<ir::KernelConfigAttr>(ir::kConfigAttr);
                          if (!config) return op.emitError("has no ") << ir::kConfigAttr;
                          const int64_t lanes = config.getLanes(), unroll = config.getRegisterN() / lanes;
                          if (unroll < 1) return op.emitError("register_n is less than one vector");
                          if (config.getTileM() != 1) return op.emitError("a task takes one row");
                          const View& v = p.views.find(op.getDpsInputs()[0])->second;
                          const auto load = [&](Value at, Value left) {
                            Value from = e.add(v.offset, at);
                            return e.to_f32(left ? e.load_masked(v.memory, from, lanes, left, kLowest)
                                                 : e.load_vector(v.memory, from, lanes));
                          };
                          Best best = reduce_row(e, p.depth, lanes, unroll, load);
                          store_best(e, p, e.idx(0), best, config.getSplit() ? p.first_column : offset);
                          return int64_t{0};
                        });
}

}  // namespace lathe::emit
