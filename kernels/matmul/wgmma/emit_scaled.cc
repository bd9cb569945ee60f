// Operands in blocks of fp8: the instruction multiplies the codes. Every group of K that shares scales is accumulated
// separately, and its sums times the scales are added in f32. Scales of any layout come to shared memory as f32.
#include "kernels/matmul/emit_blocks.h"
#include "kernels/matmul/wgmma/emit.h"

namespace lathe::emit {
using namespace mlir;

namespace {

// Elements that share a scale in DeepSeek's format. Power-of-two scales have a class of 32, in which four blocks may
// share one.
constexpr int64_t kWide = 128;

}  // namespace

Value WgmmaKernel::scales_at(Value stage) {
  return e_.add(e_.add(shared_, e_.mul(stage, shape_.scale_bytes())), shape_.scales_at);
}

std::array<WgmmaKernel::Scales, 2> WgmmaKernel::scales_of_operands(const GpuStep& step,
                                                                   const TileProgram& p) {
  linalg::LinalgOp contraction = p.contraction;
  std::array<Scales, 2> scales;
  for (unsigned operand = 0; operand < 2; ++operand) {
    const WgmmaOperand& x = operand == 0 ? shape_.a : shape_.b;
    const View& view = p.views.find(contraction.getDpsInputs()[operand])->second;
    scales[&x == &shape_.p() ? 0 : 1] = {scale_places(e_, step, p, operand), view.blocks, &view, x.width, {}};
  }
  return scales;
}

Value WgmmaKernel::share_scales_of_128(const std::array<Scales, 2>& scales) {
  if (shape_.in.scaled == kWide) return nullptr;
  return arith::AndIOp::create(e_.b, e_.loc, scales[0].places.of_128(e_, scales[0].blocks),
                               scales[1].places.of_128(e_, scales[1].blocks));
}

// Finds the lines whose scales this lane loads.
void WgmmaKernel::find_lines(const TileProgram& p, std::array<Scales, 2>* scales) {
  for (auto [i, x] : llvm::enumerate(*scales)) {
    const bool rows_of_a = (i == 0) != shape_.in.swap;
    // Lines beyond the operand repeat the last one.
    Value last = e_.sub(rows_of_a ? p.rows : p.columns, e_.idx(1));
    for (int64_t at = 0; at < x.width; at += 32)
      x.lines.push_back(x.places.of_line(e_, e_.min(e_.widen(e_.add(lane_, at)), last)));
  }
}

// Stores the scales of the block of K at `depth` (index). A loop over the groups needs fewer registers.
void WgmmaKernel::store_scales(const TileProgram& p, const std::array<Scales, 2>& scales, PipelineState s,
                               Value depth) {
  Value last = e_.sub(p.depth, e_.idx(1)), elements = e_.i32(shape_.in.scaled),
        groups = e_.i32(shape_.groups());
  if (Value wide = share_scales_of_128(scales)) {
    elements = arith::SelectOp::create(e_.b, e_.loc, wide, e_.i32(kWide), elements);
    groups = arith::SelectOp::create(e_.b, e_.loc, wide, e_.i32(shape_.in.tile_k / kWide), groups);
  }
  Value own = e_.add(scales_at(s.stage), e_.mul(lane_, 4));
  e_.loop(e_.i32(0), groups, 1, [&](Value group) {
    Value k = e_.min(e_.add(depth, e_.widen(e_.mul(group, elements))), last);
    Values loaded;
    for (const Scales& x : scales)
      for (Value line : x.lines) loaded.push_back(gpu_scale(e_, *x.view, x.places, line, k));
    Value to = e_.add(own, e_.mul(group, shape_.group_bytes()));
    const Value* next = loaded.begin();
    int64_t at = 0;
    for (const Scales& x : scales) {
      for (int64_t line = 0; line < x.width; line += 32, ++next) {
        const auto store = [&] { store_shared(e_, to, at + 4 * line, *next); };
        if (x.width - line >= 32)
          store();
        else
          e_.when(e_.less(lane_, e_.i32(x.width - line)), store);
      }
      at += 4 * x.width;
    }
  });
}

// Accumulates `count` blocks of K.
Values WgmmaKernel::multiply_scaled(const Tile& tile, const TileProgram& p, Value count,
                                    PipelineState* state) {
  const std::array<Scales, 2> scales = scales_of_operands(tile.step, p);
  Value wide = share_scales_of_128(scales), q_is_same;
  // Columns of B often share their scales, 128 at a time. Then one scale serves the tile.
  if (!shape_.in.swap) q_is_same = scales[1].places.all_same(e_, p.columns);
  Values init(product_.registers(), e_.constant_f32(0));
  init.append({state->stage, state->parity});
  Values last = e_.loop(e_.i32(0), count, 1, init, [&](Value, const Values& carried) {
    PipelineState s = PipelineState::of({carried.end()[-2], carried.end()[-1]});
    const Values totals(carried.begin(), carried.end() - 2);
    wait_barrier(e_, full(s.stage), s.parity);
    const auto all = [&](int64_t groups) { return multiply_groups(s.stage, groups, q_is_same, totals); };
    Values next = wide ? e_.choose(
                             wide, totals, [&] { return all(shape_.in.tile_k / kWide); },
                             [&] { return all(shape_.groups()); })
                       : all(shape_.groups());
    const Values advanced = advance(s).values();
    next.append(advanced.begin(), advanced.end());
    return next;
  });
  *state = PipelineState::of({last.end()[-2], last.end()[-1]});
  last.truncate(product_.registers());
  return last;
}

// The scales of a thread's rows are loaded before the products, which hide their latency; those of its columns, two for
// every 8, after the products, because they are too many to wait in registers. Releases the stage.
Values WgmmaKernel::multiply_groups(Value stage, int64_t groups, Value q_is_same, Values totals) {
  Value row = e_.add(e_.mul(e_.div(warp_, e_.i32(4)), 64 * shape_.blocks),
                     e_.add(e_.mul(e_.rem(warp_, e_.i32(4)), 16), e_.div(lane_, e_.i32(4))));
  for (int64_t group = 0; group < groups; ++group) {
    Value of_p = e_.add(scales_at(stage), group * shape_.group_bytes());
    Value of_q = e_.add(of_p, 4 * shape_.p().width);
    Values rows, same;
    for (int64_t i = 0; i < 2 * shape_.blocks; ++i)
      rows.append(load_shared(e_, e_.add(of_p, e_.mul(row, 4)), 4 * (i / 2 * 64 + i % 2 * 8), 1));
    if (q_is_same) same = load_shared(e_, of_q, 0, 1);
    Value products =
        multiply_stage(stage, undefined_sums(e_, product_), e_.i32(0), /*in_flight=*/0, {group, groups});
    const Values sums = sums_of(e_, product_, products);
    const auto end = [&] {
      if (group + 1 < groups) return;
      sync_warp(e_);
      release(stage);
    };
    const auto by_column = [&] {
      Value own = e_.add(of_q, e_.mul(e_.rem(lane_, e_.i32(4)), 8));
      Values next =
          add_scaled(totals, sums, rows, [&](int64_t j) { return load_shared(e_, own, 32 * j, 2); });
      end();
      return next;
    };
    const auto by_tile = [&] {
      end();
      return add_scaled(totals, sums, rows, [&](int64_t) { return Values{same[0], same[0]}; });
    };
    totals = q_is_same ? e_.choose(q_is_same, totals, by_tile, by_column) : by_column();
  }
  return totals;
}

// Adds the sums times their scales. The product of two scales could overflow, so it is not formed.
Values WgmmaKernel::add_scaled(const Values& totals, const Values& sums, const Values& rows,
                               const std::function<Values(int64_t j)>& columns) {
  const int64_t of_block = shape_.q().width / 2;
  Values result(totals.size());
  for (int64_t j = 0; j < of_block / 4; ++j) {
    const Values two = columns(j);
    for (int64_t block = 0; block < shape_.blocks; ++block)
      for (int64_t i = 0; i < 4; ++i) {
        const int64_t at = block * of_block + 4 * j + i;
        Value scaled = arith::MulFOp::create(e_.b, e_.loc, sums[at], rows[2 * block + i / 2]);
        result[at] = e_.fma(scaled, two[i % 2], totals[at]);
      }
  }
  return result;
}

}  // namespace lathe::emit
