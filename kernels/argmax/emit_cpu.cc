// "rows" on the CPU: vectors of running maxima, where each lane also keeps the position at which it last
// rose. Lanes are combined at the end. NaN counts as the maximum and is never replaced.
//
// f16 and bf16 values would have to be converted one by one. Instead, whole blocks of such rows are first
// compared as integers, with two maxima per vector, because floats of one sign are ordered like their bits.
// Only a block that has a greater value than all before it, or a NaN, is compared value by value
// (docs/cpu-speed.md, Argmax). f32 needs no conversion and gains nothing.
#include "kernels/argmax/emit_cpu.h"

#include <limits>

#include "compiler/cpu_task.h"
#include "compiler/dialect.h"
#include "kernels/argmax/emit_best.h"
#include "kernels/argmax/emit_ukernel.h"

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

// Blocks of a row, as the bits of its values.
class RawBlocks {
 public:
  RawBlocks(Emit& e, const View& row, int64_t lanes)
      : e_(e),
        row_(row),
        bits_(row.element.getIntOrFloatBitWidth()),
        width_(lanes * 32 / bits_),
        type_(e.vec(width_, e.b.getIntegerType(static_cast<unsigned>(bits_)))) {}

  int64_t columns() const { return kVectors * width_; }

  // Whether the block from `column` on may contain a value that rises over the best (f32).
  Value may_rise(Value column, Value best) const {
    Value most, most_unsigned;
    for (int64_t v = 0; v < kVectors; ++v) {
      Value at = e_.add(e_.add(row_.offset, column), v * width_);
      Value x = arith::BitcastOp::create(e_.b, e_.loc, type_, e_.load_vector(row_.memory, at, width_));
      most = v ? Value(arith::MaxSIOp::create(e_.b, e_.loc, most, x)) : x;
      most_unsigned = v ? Value(arith::MaxUIOp::create(e_.b, e_.loc, most_unsigned, x)) : x;
    }
    Value bits = bits_of(best);
    Value above = any(arith::CmpIPredicate::sgt, most, bits);
    // Only negative NaNs have greater unsigned bits than -infinity. Positive NaNs are above every best as
    // signed bits.
    Value nan = any(arith::CmpIPredicate::ugt, most_unsigned, bits_of(e_.constant_f32(kLowest)));
    // The bits of negative values are ordered the other way round, so a block always counts as rising if the best is
    // negative.
    Value zero = arith::ConstantOp::create(e_.b, e_.loc, e_.b.getIntegerAttr(bits.getType(), 0));
    Value below = arith::CmpIOp::create(e_.b, e_.loc, arith::CmpIPredicate::slt, bits, zero);
    return arith::OrIOp::create(e_.b, e_.loc, below, arith::OrIOp::create(e_.b, e_.loc, above, nan));
  }

 private:
  static constexpr int64_t kVectors = 4;

  // `value` is one of the row's values, so nothing is rounded.
  Value bits_of(Value value) const {
    if (row_.element.isF16()) value = arith::TruncFOp::create(e_.b, e_.loc, row_.element, value);
    Type own = e_.b.getIntegerType(value.getType().getIntOrFloatBitWidth());
    value = arith::BitcastOp::create(e_.b, e_.loc, own, value);
    if (!row_.element.isBF16()) return value;
    Value high = arith::ShRUIOp::create(e_.b, e_.loc, value, e_.i32(16));
    return arith::TruncIOp::create(e_.b, e_.loc, type_.getElementType(), high);
  }
  Value any(arith::CmpIPredicate predicate, Value x, Value scalar) const {
    Value all = vector::BroadcastOp::create(e_.b, e_.loc, type_, scalar);
    Value lanes = arith::CmpIOp::create(e_.b, e_.loc, predicate, x, all);
    return vector::ReductionOp::create(e_.b, e_.loc, vector::CombiningKind::OR, lanes);
  }

  Emit& e_;
  View row_;
  int64_t bits_, width_;
  VectorType type_;
};

}  // namespace

Best reduce_row(Emit& e, Value columns, int64_t lanes, int64_t unroll, const LoadColumns& load,
                const View* row) {
  auto i32 = e.b.getI32Type();
  Value lowest = e.splat(e.vec(lanes, e.f32()), kLowest);
  Value zero = arith::ConstantOp::create(e.b, e.loc, DenseElementsAttr::get(e.vec(lanes, i32), int32_t{0}));
  Values state;  // unroll values, then unroll columns
  for (int64_t u = 0; u < unroll; ++u) state.push_back(lowest);
  for (int64_t u = 0; u < unroll; ++u) state.push_back(zero);
  // A lane keeps the first column of the step; its own offset is added when lanes are combined.
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
  Value start = e.idx(0);
  if (row != nullptr) {
    const RawBlocks blocks(e, *row, lanes);
    start = e.mul(e.div(columns, e.idx(blocks.columns())), blocks.columns());
    state.push_back(e.constant_f32(kLowest));
    state = e.loop(e.idx(0), start, blocks.columns(), state, [&](Value k0, const Values& s) {
      return e.choose(
          blocks.may_rise(k0, s.back()), s,
          [&] {
            Values seen = s;
            seen.pop_back();
            seen = e.loop(k0, e.add(k0, blocks.columns()), lanes * unroll, seen,
                          [&](Value k, const Values& x) { return step(k, x, unroll, nullptr); });
            Value best = seen[0];
            for (int64_t u = 1; u < unroll; ++u) best = arith::MaximumFOp::create(e.b, e.loc, best, seen[u]);
            seen.push_back(vector::ReductionOp::create(e.b, e.loc, vector::CombiningKind::MAXIMUMF, best));
            return seen;
          },
          [&] { return s; });
    });
    state.pop_back();
  }
  state = e.loop(start, unrolled, lanes * unroll, state,
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
  return emit_cpu_tasks(
      module, [](Emit& e, const Arguments& arguments, TileProgram& p) -> llvm::FailureOr<int64_t> {
        if (!p.argmax) return emitError(e.loc, "an argmax step needs a reduction of values and columns");
        auto op = cast<linalg::GenericOp>(p.argmax);
        Value offset = arguments.get("index_offset");
        if (op.getNumDpsInputs() == 2) {
          store_best(e, p, e.idx(0), merge_row(e, p), offset);
          return int64_t{0};
        }
        auto config = p.argmax->getAttrOfType<ir::KernelConfigAttr>(ir::kConfigAttr);
        if (!config) return op.emitError("has no ") << ir::kConfigAttr;
        if (config.tile_m() != 1) return op.emitError("kernel_config: tile_m must be 1");
        const View& v = p.views.find(op.getDpsInputs()[0])->second;
        if (auto ukernel = op->getAttrOfType<ir::UkernelAttr>(ir::kUkernelAttr)) {
          store_best(e, p, e.idx(0), ukernel_row(e, ukernel, v, p.depth),
                     config.split() ? p.first_column : offset);
          return int64_t{0};
        }
        const int64_t lanes = config.lanes(), unroll = config.as<CpuRowsConfig>().register_n / lanes;
        if (unroll < 1) return op.emitError("kernel_config: register_n is less than the lanes of a vector");
        const auto load = [&](Value at, Value left) {
          Value from = e.add(v.offset, at);
          return e.to_f32(left ? e.load_masked(v.memory, from, lanes, left, kLowest)
                               : e.load_vector(v.memory, from, lanes));
        };
        Best best = reduce_row(e, p.depth, lanes, unroll, load, v.element.isF32() ? nullptr : &v);
        store_best(e, p, e.idx(0), best, config.split() ? p.first_column : offset);
        return int64_t{0};
      });
}

}  // namespace lathe::emit
