// The loops over K of the producer and of the consumers.
#include "core/plan.h"
#include "kernels/matmul/wgmma/emit.h"

namespace lathe::emit {
using namespace mlir;

// One thread of the last warpgroup issues all copies by TMA. Its other warps load what TMA does not copy.
void WgmmaKernel::produce() {
  if (shape_.has_loaders()) e_.when(e_.less(e_.i32(4 * shape_.consumers), warp_), [&] { load(); });
  e_.when(e_.equal(warp_, e_.i32(4 * shape_.consumers)), [&] {
    e_.when(elect_lane(e_), [&] {
      for_each_tile({}, [&](const Tile& tile, PipelineState state) {
        FailureOr<TileProgram> program = tile.step.at(e_, tile.position);
        if (failed(program)) {
          result_ = failure();
          return state;
        }
        Value count = e_.to_i32(e_.ceil_div(program->depth, e_.idx(shape_.in.tile_k)));
        Values last = e_.loop(e_.i32(0), count, 1, state.values(), [&](Value i, const Values& carried) {
          PipelineState s = PipelineState::of(carried);
          wait_barrier(e_, empty(s.stage), arith::XOrIOp::create(e_.b, e_.loc, s.parity, e_.i32(1)));
          arrive_expecting(e_, full(s.stage), shape_.copied_bytes());
          copy_stage(tile, *program, s, e_.mul(i, shape_.in.tile_k));
          return advance(s).values();
        });
        return PipelineState::of(last);
      });
    });
  });
}

// Copies the parts of A and B at `depth` of the program's K. Elements outside an operand arrive as zeros and
// count towards the mbarrier's bytes. Rows of the next group are multiplied, but not stored.
void WgmmaKernel::copy_stage(const Tile& tile, const TileProgram& p, PipelineState s, Value depth) {
  Value stage = e_.add(shared_, e_.mul(s.stage, shape_.stage_bytes));
  Value k = e_.add(e_.to_i32(p.depth0), depth);
  for (int i = shape_.in.lists_rows ? 1 : 0; i < 2; ++i) {
    const WgmmaOperand& x = i == 0 ? shape_.a : shape_.b;
    Value across = e_.to_i32(i == 0 ? p.row0 : p.column0);
    if (i == 0 && tile.step.rows()) across = e_.add(across, e_.to_i32(tile.step.rows()->first));
    // A batch stride of 0 means that all of the batch share one matrix.
    Value same = e_.equal(batch_strides_[i], e_.idx(0));
    Value batch = arith::SelectOp::create(e_.b, e_.loc, same, e_.i32(0), e_.to_i32(p.batch));
    Value to = e_.add(stage, place_of(x));
    Value mask;
    if (x.share > 1) {
      // Each workgroup of the cluster multicasts one piece to all of them. Clusters are pairs along one
      // dimension, so all their workgroups need the same part.
      across = e_.add(across, e_.mul(rank_, x.k_major ? x.box_rows : x.boxes * x.box_columns));
      to = e_.add(to, e_.mul(rank_, (x.k_major ? 1 : x.boxes) * x.box_rows * WgmmaShape::kRow));
      mask = e_.constant(e_.b.getI16Type(), (1 << x.share) - 1);
    }
    for (int64_t box = 0; box < x.boxes; ++box) {
      Value along = e_.add(x.k_major ? k : across, box * x.box_columns);
      Coordinates at = {along, x.k_major ? across : k, batch};
      const int64_t box_bytes = (x.k_major ? x.width : x.box_rows) * WgmmaShape::kRow;
      copy_in(e_, e_.add(to, box * box_bytes), maps_[i], at, full(s.stage), mask);
    }
  }
}

void WgmmaKernel::consume() {
  // Work that the whole workgroup does elsewhere (merging) is done by the consumers' threads here.
  const int64_t threads = 128 * shape_.consumers;
  kernel_.narrow(threads, [this, threads] { named_barrier(e_, /*barrier=*/1, threads); });
  const WgmmaOperand &p = shape_.p(), &q = shape_.q();
  constexpr int64_t kRow = WgmmaShape::kRow, kGroup = WgmmaShape::kGroup;
  const int64_t row_steps =
      shape_.row_elements * shape_.in.element_bytes / 32;  // K steps in a row of 128 bytes
  // Offset of K step `s`. K-contiguous operands: 32 bytes per step, then the next column of 128-byte rows.
  // Others: a step is 16 rows, which are two groups.
  const auto along_k = [=](const WgmmaOperand& x, int64_t s) {
    return x.k_major ? s / row_steps * x.width * kRow + s % row_steps * 32 : s * 2 * kGroup;
  };
  const int64_t block_bytes = p.k_major ? 64 * kRow : shape_.in.tile_k * kRow;
  product_.a_offset = [=](int64_t r, int64_t s) { return r * block_bytes + along_k(p, s); };
  product_.b_offset = [=](int64_t s) { return along_k(q, s); };

  const RowReaders readers = {kernel_.thread(), threads, [&] { kernel_.barrier(); }, false, true};
  for_each_tile(readers, [&](const Tile& tile, PipelineState state) {
    FailureOr<TileProgram> program = tile.step.at(e_, tile.position);
    if (failed(program)) {
      result_ = failure();
      return state;
    }
    Value count = e_.to_i32(e_.ceil_div(program->depth, e_.idx(shape_.in.tile_k)));
    const Values sums = shape_.in.scaled > 0 ? multiply_scaled(tile, *program, count, &state)
                        : shape_.in.promotes ? multiply_apart(count, &state)
                                             : multiply_tile(count, &state);
    const auto store = [&] {
      if (shape_.in.compares)
        compare_tile(*program, tile.position, sums);
      else if (shape_.in.cluster_k > 1)
        merge_in_cluster(tile.position, sums);
      else if (shape_.copies_out())
        copy_tile(*program, sums);
      else
        store_tile(*program, sums);
    };
    if (tile.exists)
      e_.when(tile.exists, store);
    else
      store();
    const bool merges = kernel_.config().split() == kMergeLast && !shape_.in.compares;
    if (merges && failed(merge_last(e_, kernel_, step_, tile.position))) result_ = failure();
    return state;
  });
  // Shared memory must stay valid until TMA has read it.
  if (shape_.copies_out()) e_.when(e_.equal(lane_, e_.i32(0)), [&] { wait_copies_read(e_, 0); });
}

// The descriptors of P and Q in the first stage.
std::pair<Value, Value> WgmmaKernel::descriptors() {
  const auto leading = [&](const WgmmaOperand& x) {
    return x.k_major ? 16 : shape_.in.tile_k * WgmmaShape::kRow;
  };
  Value own = e_.mul(e_.div(warp_, e_.i32(4)), product_.a_offset(1, 0) * shape_.blocks);
  return {operand_descriptor(e_, e_.add(shared_, own), leading(shape_.p()), WgmmaShape::kGroup),
          operand_descriptor(e_, e_.add(shared_, shape_.p().bytes), leading(shape_.q()), WgmmaShape::kGroup)};
}

Value WgmmaKernel::multiply_stage(Value stage, Value sums, Value accumulate, int64_t in_flight,
                                  StagePart part) {
  const auto [p, q] = descriptors();
  WarpgroupProduct product = product_;
  product.steps = shape_.steps / part.count;
  const int64_t step = part.number * product.steps;
  Value bytes = e_.mul(stage, shape_.stage_bytes);
  return multiply_warpgroup(
      e_, product, sums, move_descriptor(e_, p, e_.add(bytes, product.a_offset(0, step))),
      move_descriptor(e_, q, e_.add(bytes, product.b_offset(step))), accumulate, in_flight);
}

Value WgmmaKernel::plus(Value x, Value y) {
  if (product_.sum.isInteger()) return arith::AddIOp::create(e_.b, e_.loc, x, y);
  return arith::AddFOp::create(e_.b, e_.loc, x, y);
}

// Accumulates `count` blocks of K, each of them separately, and adds the blocks in f32: the tensor cores keep
// only about 14 bits of a sum of fp8 products (DeepSeek-V3 technical report, section 3.3.2).
Values WgmmaKernel::multiply_apart(Value count, PipelineState* state) {
  Values init(product_.registers(), e_.constant_f32(0));
  init.append({state->stage, state->parity});
  Values last = e_.loop(e_.i32(0), count, 1, init, [&](Value, const Values& carried) {
    PipelineState s = PipelineState::of({carried.end()[-2], carried.end()[-1]});
    wait_barrier(e_, full(s.stage), s.parity);
    Value sums = multiply_stage(s.stage, undefined_sums(e_, product_), e_.i32(0), /*in_flight=*/0);
    release(s.stage);
    Values next;
    for (auto [total, sum] : llvm::zip(carried, sums_of(e_, product_, sums)))
      next.push_back(plus(total, sum));
    const Values advanced = advance(s).values();
    next.append(advanced.begin(), advanced.end());
    return next;
  });
  *state = PipelineState::of({last.end()[-2], last.end()[-1]});
  last.truncate(product_.registers());
  return last;
}

// Accumulates `count` (at least one) blocks of K, and releases a stage when the next one's products have
// started. The loop is tested at its end so that accumulators in flight are not copied at the back edge
// (ptxas C7515). They start as zeros, which the first products ignore: undefined ones make ptxas before 12.9
// serialise the products.
Values WgmmaKernel::multiply_tile(Value count, PipelineState* state) {
  Values init = {zero_sums(e_, product_), state->stage, state->parity, state->stage, e_.i32(0)};
  SmallVector<Type> types;
  for (Value v : init) types.push_back(v.getType());
  auto loop = scf::WhileOp::create(
      e_.b, e_.loc, types, init,
      [&](OpBuilder& nested, Location, ValueRange carried) {
        OpBuilder::InsertionGuard guard(e_.b);
        e_.b.restoreInsertionPoint(nested.saveInsertionPoint());
        PipelineState s = {carried[1], carried[2]};
        Value done = carried[4];
        wait_barrier(e_, full(s.stage), s.parity);
        Value later = arith::CmpIOp::create(e_.b, e_.loc, arith::CmpIPredicate::ne, done, e_.i32(0));
        Value accumulate = arith::ExtUIOp::create(e_.b, e_.loc, e_.b.getI32Type(), later);
        Value sums = multiply_stage(s.stage, carried[0], accumulate, /*in_flight=*/1);
        e_.when(later, [&] { release(carried[3]); });
        PipelineState next = advance(s);
        Value more = e_.add(done, 1);
        scf::ConditionOp::create(e_.b, e_.loc, e_.less(more, count),
                                 ValueRange{sums, next.stage, next.parity, s.stage, more});
      },
      [&](OpBuilder& nested, Location, ValueRange carried) {
        scf::YieldOp::create(nested, e_.loc, carried);
      });
  *state = {loop.getResult(1), loop.getResult(2)};
  Values sums = wait_sums(e_, product_, loop.getResult(0));
  release(loop.getResult(3));
  return sums;
}

// Each warp releases the stage separately: other warps of its warpgroup may still read it.
void WgmmaKernel::release(Value stage) {
  if (cluster_ == 1)
    e_.when(e_.equal(lane_, e_.i32(0)), [&] { arrive(e_, empty(stage)); });
  else
    e_.when(e_.less(lane_, e_.i32(cluster_)), [&] { arrive_at(e_, empty(stage), lane_); });
}

}  // namespace lathe::emit
