// The loop over a workgroup's weights: loads of later units run ahead of the products of earlier ones.
#include "compiler/ptx_hopper.h"
#include "compiler/ptx_mma.h"
#include "kernels/matmul/skinny/emit.h"

namespace lathe::emit {
namespace {
using namespace mlir;

// Starts to copy A's part to shared memory, [segment of K][row]: a thread copies the same 16 bytes of every
// row. Beyond K it writes zeros, up to the end of the unit after the last.
void stage_rows(SkinnyTile& t) {
  Emit& e = t.e;
  const SkinnyShape& s = t.shape;
  const View& view = t.view(0);
  const int64_t per_vector = SkinnyShape::kVector / s.in.element_bytes,
                vectors_in_segment = s.segment / SkinnyShape::kVector;
  Value units = e.ceil_div(t.depth, e.i32(s.unit));
  Value vectors = e.mul(e.add(units, 1), s.unit / per_vector);
  e.loop(t.thread, vectors, t.kernel.threads(), [&](Value v) {
    Value k = e.mul(v, per_vector);
    Value left = arith::MaxSIOp::create(e.b, e.loc, e.sub(t.depth, k), e.i32(0));
    Value bytes = e.mul(e.min(left, e.i32(per_vector)), s.in.element_bytes);
    Value from = arith::SelectOp::create(e.b, e.loc, e.less(k, t.depth), k, e.i32(0));
    Value segment = e.div(v, e.i32(vectors_in_segment)), within = e.rem(v, e.i32(vectors_in_segment));
    Value to =
        e.add(t.shared, e.add(e.mul(segment, s.in.rows * s.segment), e.mul(within, SkinnyShape::kVector)));
    // One pointer walks over rows that follow each other, which takes the fewest registers, and stays at the last one.
    const bool lists = view.pointer != nullptr;
    const auto to_row = [&](int64_t row) -> Value {
      if (t.has_all_rows) return view.row_stride;
      return arith::SelectOp::create(e.b, e.loc, e.less(e.idx(row), t.p.rows), view.row_stride, e.idx(0));
    };
    Value line = element_pointer(e, t.a, from, view.element);
    for (int64_t row = 0; row < s.in.rows; ++row) {
      if (lists)
        line = element_pointer(e, row_of_a(t, e.idx(row)), from, view.element);
      else if (row > 0)
        line = element_pointer(e, line, to_row(row), view.element);
      copy_async(e, shared_pointer(e, e.add(to, row * s.segment)), line, bytes);
    }
  });
}

class Stream {
 public:
  Stream(SkinnyTile& tile, SkinnyWeights& weights, SkinnyProducts& products)
      : t_(tile),
        e_(tile.e),
        s_(tile.shape),
        weights_(weights),
        products_(products),
        units_(e_.ceil_div(tile.depth, e_.i32(s_.unit))),
        rounds_(e_.ceil_div(tile.depth, e_.i32(s_.unit * s_.warps_k * s_.in.unroll_k))),
        groups_(e_.ceil_div(tile.columns, e_.i32(s_.in.group))) {}

  void emit() {
    // The weights' loads start first, because they come from memory, and A mostly from L2. Without keep_order
    // ptxas would issue them after A's copies.
    if (!t_.kernel.reads_b_early()) t_.kernel.wait_for_earlier_kernel();
    Values here = place(e_.i32(0), e_.i32(0)), carried;
    for (int64_t i = 0; i < s_.in.unroll_k; ++i) {
      append(carried, weights_.load(here, i * s_.warps_k));
      // AMD waits for loads in their order of issue: a load that moved behind another unit's would make every
      // round wait for both.
      if (s_.in.amd) t_.keep_order();
    }
    if (!s_.in.amd) {
      t_.keep_order();
      t_.kernel.wait_for_earlier_kernel();
      stage_rows(t_);
      weights_.stage_tails();
      commit_copies(e_);
      wait_copies(e_, 0);
      t_.kernel.barrier();
    }
    const size_t loaded = carried.size();
    append(carried, products_.zeros());
    const size_t sums = carried.size() - loaded;
    append(carried, {e_.i32(0), e_.i32(0)});  // group and round of the weights in registers
    e_.loop(e_.i32(0), e_.mul(groups_, rounds_), 1, carried, [&](Value, const Values& in) {
      ArrayRef<Value> state(in);
      return step(state.take_front(loaded), state.slice(loaded, sums), in[in.size() - 2], in.back());
    });
  }

 private:
  Value first_unit(Value round) { return e_.add(e_.mul(round, s_.warps_k * s_.in.unroll_k), t_.warp_k); }

  Values place(Value group, Value round) {
    return weights_.place(group, first_unit(round), e_.less(group, groups_));
  }
  // Multiplies the units in registers one by one, and reloads each unit's registers at once.
  Values step(ArrayRef<Value> loaded, ArrayRef<Value> sums, Value group, Value round) {
    const int64_t values = weights_.values(), weights = weights_.weights();
    Value is_last =
        Emit::known(rounds_) == 1 ? e_.constant(e_.b.getI1Type(), 1) : e_.equal(e_.add(round, 1), rounds_);
    Value next_round = arith::SelectOp::create(e_.b, e_.loc, is_last, e_.i32(0), e_.add(round, 1));
    Value next_group = e_.add(group, arith::ExtUIOp::create(e_.b, e_.loc, e_.b.getI32Type(), is_last));
    Values here = place(group, round), next = place(next_group, next_round), out, added(sums);
    Values rows = staged_rows(round, 0), rows_after;
    for (int64_t i = 0; i < s_.in.unroll_k; ++i) {
      const int64_t ahead = i * s_.warps_k;
      Values unit = weights_.complete(here, ahead, loaded.slice(i * values, values));
      if (s_.in.amd) rows.assign(unit.begin() + weights, unit.end());
      products_.multiply(added, ArrayRef<Value>(unit).take_front(weights), rows);
      if (i + 1 < s_.in.unroll_k) rows_after = staged_rows(round, ahead + s_.warps_k);
      append(out, weights_.load(next, ahead));
      // Without this, ptxas and LLVM would move all loads to the end, when the warp has nothing else in flight.
      t_.keep_order();
      rows = rows_after;
    }
    append(out, e_.choose(
                    is_last, added,
                    [&] {
                      reduce(added, group);
                      return products_.zeros();
                    },
                    [&] { return added; }));
    append(out, {next_group, next_round});
    return out;
  }
  static void append(Values& to, const Values& from) { to.append(from.begin(), from.end()); }

  // CUDA: A's part for a unit of this round; beyond K, the zeros.
  Values staged_rows(Value round, int64_t ahead) {
    if (s_.in.amd) return {};
    Value unit = e_.min(e_.add(first_unit(round), ahead), units_);
    return products_.rows(e_.add(t_.shared, e_.mul(unit, s_.unit_bytes)));
  }

  // Adds the group's sums in ascending order of the warps along K and stores them to the tile's. Groups
  // alternate between two buffers: a warp that is one group ahead writes to the other one, and the barrier
  // keeps it from being two ahead.
  void reduce(const Values& sums, Value group) {
    Value column = e_.mul(group, s_.in.group), tile_sums = e_.add(t_.shared, s_.sums_at);
    if (s_.warps_k == 1) {
      products_.store(sums, e_.add(tile_sums, e_.mul(column, 4)), s_.columns, s_.in.rows);
      return;
    }
    const int64_t warp_bytes = 4 * s_.padded_rows * s_.partial_pitch;
    Value odd = e_.rem(group, e_.i32(2));
    Value buffer = e_.add(e_.add(t_.shared, s_.partials_at), e_.mul(odd, s_.partial_bytes));
    products_.store(sums, e_.add(buffer, e_.mul(t_.warp_k, warp_bytes)), s_.partial_pitch, s_.padded_rows);
    t_.barrier();
    e_.loop(t_.thread, e_.i32(s_.in.rows * s_.in.group), t_.kernel.threads(), [&](Value element) {
      Value i = e_.div(element, e_.i32(s_.in.group)), j = e_.rem(element, e_.i32(s_.in.group));
      Value at = e_.add(buffer, e_.mul(e_.add(e_.mul(i, s_.partial_pitch), j), 4));
      Values parts;
      for (int64_t w = 0; w < s_.warps_k; ++w) parts.push_back(t_.load_shared(at, w * warp_bytes, 1)[0]);
      Value to = e_.add(e_.mul(i, s_.columns), e_.add(column, j));
      t_.store_shared(e_.add(tile_sums, e_.mul(to, 4)), 0, add_in_order(e_, parts));
    });
  }

  SkinnyTile& t_;
  Emit& e_;
  const SkinnyShape& s_;
  SkinnyWeights& weights_;
  SkinnyProducts& products_;
  Value units_, rounds_, groups_;
};

}  // namespace

Value element_pointer(Emit& e, Value pointer, Value elements, Type element) {
  if (element.getIntOrFloatBitWidth() == 8) element = e.b.getI8Type();  // LLVM has no 8-bit floats
  Value at = elements.getType().isIndex()
                 ? arith::IndexCastOp::create(e.b, e.loc, e.b.getI64Type(), elements).getResult()
                 : arith::ExtUIOp::create(e.b, e.loc, e.b.getI64Type(), elements).getResult();
  return LLVM::GEPOp::create(e.b, e.loc, pointer.getType(), element, pointer, ArrayRef<LLVM::GEPArg>{at});
}

Value row_of_a(const SkinnyTile& t, Value row) {
  Emit& e = t.e;
  Value number = row.getType().isIndex() ? row : e.to_index(row);
  if (!t.has_all_rows && !t.view(0).pointer)
    number = e.min(number, e.sub(t.p.rows, e.idx(1)));  // a list has all rows
  return element_pointer(e, t.a, row_at(e, t.view(0), number), t.view(0).element);
}

Value shared_pointer(Emit& e, Value address) {
  return LLVM::IntToPtrOp::create(e.b, e.loc, LLVM::LLVMPointerType::get(e.b.getContext(), 3), address);
}

Value add_sums(Emit& e, Value x, Value y) {
  if (x.getType().isInteger()) return arith::AddIOp::create(e.b, e.loc, x, y);
  return arith::AddFOp::create(e.b, e.loc, x, y);
}

Value add_in_order(Emit& e, ArrayRef<Value> parts) {
  Value sum = parts[0];
  for (Value part : parts.drop_front()) sum = add_sums(e, sum, part);
  return sum;
}

// For each bit, two lanes divide their sums in halves, and each adds the other lane's half to its own. An odd
// number of sums is not divided: both lanes add all of them and then hold the same.
SharedOut share_out(const SkinnyTile& t, ArrayRef<Value> sums, int64_t high, int64_t low) {
  Emit& e = t.e;
  Values left(sums.begin(), sums.end());
  Value first = e.i32(0);  // number of the lane's first sum
  for (int64_t bit = high; bit >= low; bit /= 2) {
    const size_t half = left.size() / 2;
    if (left.size() % 2 != 0) {
      for (Value& sum : left) sum = add_sums(e, sum, t.exchange_lanes(sum, bit));
      continue;
    }
    Value upper = e.equal(e.rem(e.div(t.lane, e.i32(bit)), e.i32(2)), e.i32(1));
    Values kept;
    for (size_t i = 0; i < half; ++i) {
      Value mine = arith::SelectOp::create(e.b, e.loc, upper, left[i + half], left[i]);
      Value other = arith::SelectOp::create(e.b, e.loc, upper, left[i], left[i + half]);
      kept.push_back(add_sums(e, mine, t.exchange_lanes(other, bit)));
    }
    first = e.add(first, arith::SelectOp::create(e.b, e.loc, upper, e.i32(half), e.i32(0)));
    left = kept;
  }
  return {left, first};
}

void store_share(const SkinnyTile& t, const SharedOut& share, int64_t columns, Value at, int64_t pitch) {
  Emit& e = t.e;
  for (size_t i = 0; i < share.sums.size(); ++i) {
    Value number = e.add(share.first, static_cast<int64_t>(i));
    Value row = e.div(number, e.i32(columns)), column = e.rem(number, e.i32(columns));
    t.store_shared(e.add(at, e.mul(e.add(e.mul(row, pitch), column), 4)), 0, share.sums[i]);
  }
}

void stream_weights(SkinnyTile& tile, SkinnyWeights& weights, SkinnyProducts& products) {
  Stream(tile, weights, products).emit();
}

}  // namespace lathe::emit
