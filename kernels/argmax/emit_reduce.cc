// The best of what a group of threads holds. On CUDA from sm_80 on, the lanes of a warp use three redux
// instructions; elsewhere the group's threads use a tree in shared memory.
#include <limits>

#include "compiler/ptx_warp.h"
#include "kernels/argmax/emit_gpu.h"
#include "kernels/argmax/emit_keys.h"

namespace lathe::emit {
using namespace mlir;

namespace {

Value select(Emit& e, Value c, Value x, Value y) { return arith::SelectOp::create(e.b, e.loc, c, x, y); }

bool has_redux(const GpuKernel& kernel) {
  int sm = 0;
  llvm::StringRef arch = kernel.arch();
  return arch.consume_front("sm_") && !arch.consumeInteger(10, sm) && sm >= 80;
}

// The best of a warp's lanes, in all lanes.
Best reduce_warp(Emit& e, const Best& mine) {
  Value key = ordered(e, mine.value), none = e.i32(-1);
  Value greatest = e.equal(key, ptx::redux_max(e, key));
  Value column = ptx::redux_min(e, select(e, greatest, mine.column, none));
  // Lanes with this column hold the same value; a lane with another column may hold a zero of the other sign.
  Value holds = arith::AndIOp::create(e.b, e.loc, greatest, e.equal(mine.column, column));
  Value bits = arith::BitcastOp::create(e.b, e.loc, e.b.getI32Type(), mine.value);
  bits = ptx::redux_min(e, select(e, holds, bits, none));
  return {arith::BitcastOp::create(e.b, e.loc, e.f32(), bits), column};
}

// (value, column) pairs in shared memory.
struct SharedPairs {
  SharedPairs(Emit& e, GpuKernel& kernel, int64_t count)
      : values(kernel.shared(e.f32(), count)), columns(kernel.shared(e.b.getI32Type(), count)) {}
  void put(Emit& e, const Best& b, Value at) const {
    e.store(b.value, values, at);
    e.store(b.column, columns, at);
  }
  Best get(Emit& e, Value at) const { return {e.load(values, at), e.load(columns, at)}; }

  Value values, columns;
};

Best reduce_warps(Emit& e, GpuKernel& kernel, const Best& mine, int64_t group) {
  Best best = reduce_warp(e, mine);
  if (group == ptx::kWarp) return best;
  SharedPairs pairs(e, kernel, kernel.threads() / ptx::kWarp);
  Value warp = e.div(kernel.thread(), e.idx(ptx::kWarp)), lane = e.rem(kernel.thread(), e.idx(ptx::kWarp));
  e.when(e.equal(lane, e.idx(0)), [&] { pairs.put(e, best, warp); });
  kernel.barrier();
  // Every warp reads its group's pairs. If there are fewer pairs than lanes, some lanes read the same pair.
  const int64_t warps = group / ptx::kWarp;
  Value first = e.mul(e.div(kernel.thread(), e.idx(group)), warps);
  return reduce_warp(e, pairs.get(e, e.add(first, e.rem(lane, e.idx(warps)))));
}

Best reduce_tree(Emit& e, GpuKernel& kernel, const Best& mine, int64_t group) {
  SharedPairs pairs(e, kernel, kernel.threads());
  Value thread = kernel.thread(), place = e.rem(thread, e.idx(group));
  pairs.put(e, mine, thread);
  for (int64_t half = group / 2; half >= 1; half /= 2) {
    kernel.barrier();
    e.when(e.less(place, e.idx(half)),
           [&] { pairs.put(e, better(e, pairs.get(e, thread), pairs.get(e, e.add(thread, half))), thread); });
  }
  return pairs.get(e, thread);
}

}  // namespace

Best nothing(Emit& e) { return {e.constant_f32(-std::numeric_limits<float>::infinity()), e.i32(-1)}; }

Best reduce_group(Emit& e, GpuKernel& kernel, const Best& mine, int64_t group) {
  const bool warps = has_redux(kernel) && group >= ptx::kWarp && group <= ptx::kWarp * ptx::kWarp;
  return warps ? reduce_warps(e, kernel, mine, group) : reduce_tree(e, kernel, mine, group);
}

void emit_pairs_merge(Emit& e, GpuKernel& kernel, const GpuStep& step, const TileProgram& p) {
  auto op = cast<linalg::GenericOp>(p.argmax);
  const View& values = p.views.find(op.getDpsInputs()[0])->second;
  const View& columns = p.views.find(op.getDpsInputs()[1])->second;
  Best none = nothing(e);
  Values best = e.loop(
      kernel.thread(), p.depth, kernel.threads(), {none.value, none.column}, [&](Value s, const Values& in) {
        Best next{e.load(values.memory, e.add(values.offset, e.mul(s, values.row_stride))),
                  e.load(columns.memory, e.add(columns.offset, e.mul(s, columns.row_stride)))};
        Best b = better(e, {in[0], in[1]}, next);
        return Values{b.value, b.column};
      });
  Best last = reduce_group(e, kernel, {best[0], best[1]}, kernel.threads());
  e.when(e.equal(kernel.thread(), e.idx(0)),
         [&] { store_best(e, p, e.idx(0), last, step.arguments().get("index_offset")); });
}

}  // namespace lathe::emit
