// Every row of the tile has a key in shared memory. A thread compares its logits of a row in registers and
// then raises the row's key to its best, so that no family has to say which threads share a row.
#include "kernels/matmul_argmax/emit_sink.h"

#include "compiler/ptx_warp.h"
#include "core/plan.h"
#include "kernels/argmax/emit_gpu.h"
#include "kernels/argmax/emit_keys.h"

namespace lathe::emit {
namespace {
using namespace mlir;

Value select(Emit& e, Value c, Value x, Value y) { return arith::SelectOp::create(e.b, e.loc, c, x, y); }

class ArgmaxSink : public OutputSink {
 public:
  ArgmaxSink(Emit& e, GpuKernel& kernel, const GpuStep& step, TileProgram& p, const GridPosition& position)
      : e_(e), kernel_(kernel), step_(step), p_(p), position_(position) {
    const int64_t rows = kernel.config().getTileM();
    whole_ = Emit::known(p.columns) == kernel.config().getTileN();
    keys_ = kernel.shared(e.b.getI64Type(), rows);
    e.loop(kernel.thread(), e.idx(rows), kernel.workers(),
           [&](Value i) { e.store(e.constant(e.b.getI64Type(), 0), keys_, i); });
    kernel.barrier();
  }

  void row(Value i, ArrayRef<Value> columns, ArrayRef<Value> sums, int32_t lanes) override {
    Value row = index(i), inside_row = e_.min(row, e_.sub(p_.rows, e_.idx(1)));
    Best best = logit(inside_row, columns[0], sums[0]);
    for (auto [column, sum] : llvm::drop_begin(llvm::zip(columns, sums)))
      best = keep_better(e_, best, logit(inside_row, column, sum));
    Value key = pack(e_, best);
    for (int32_t bit = 1; bit <= lanes; bit *= 2)
      if (lanes & bit) key = arith::MaxUIOp::create(e_.b, e_.loc, key, ptx::shuffle_xor(e_, key, bit));
    Value writes = e_.less(row, p_.rows);
    if (lanes != 0) {
      Value lane = e_.rem(e_.to_i32(kernel_.thread()), e_.i32(ptx::kWarp));
      Value shared = arith::AndIOp::create(e_.b, e_.loc, lane, e_.i32(lanes));
      writes = arith::AndIOp::create(e_.b, e_.loc, writes, e_.equal(shared, e_.i32(0)));
    }
    e_.when(writes, [&] { raise_shared(e_, kernel_, keys_, row, key); });
  }

  LogicalResult done() override {
    kernel_.barrier();
    if (step_.merges()) return merge();
    Value first = p_.column0;
    if (kernel_.config().getSplit() == kNoSplit) first = e_.add(first, step_.arguments().get("index_offset"));
    e_.loop(kernel_.thread(), p_.rows, kernel_.workers(),
            [&](Value i) { store_best(e_, p_, i, unpack(e_, e_.load(keys_, i)), first); });
    return success();
  }

 private:
  Value index(Value x) { return x.getType().isIndex() ? x : e_.to_index(x); }

  // A logit of the tile and its column; beyond the edge, a pair that loses to all others.
  Best logit(Value row, Value column, Value sum) {
    Value j = index(column), last = e_.sub(p_.columns, e_.idx(1));
    Value x = e_.to_f32(finish(e_, p_, sum, row, whole_ ? j : e_.min(j, last)));
    Value at = e_.to_i32(j);
    if (whole_) return {x, at};
    Best none = nothing(e_);
    Value exists = e_.less(j, p_.columns);
    return {select(e_, exists, x, none.value), select(e_, exists, at, none.column)};
  }

  // The workgroup that arrives last at these rows finds the best of all column tiles in the rows' keys.
  LogicalResult merge() {
    const Arguments& arguments = step_.arguments();
    FailureOr<TileProgram> program = step_.merge_at(e_, position_);
    if (failed(program)) return failure();
    RowKeys keys(e_, kernel_, arguments);
    const auto for_each_row = [&](const std::function<void(Value)>& body) {
      e_.loop(kernel_.thread(), p_.rows, kernel_.workers(), body);
    };
    for_each_row([&](Value i) {
      Best best = unpack(e_, e_.load(keys_, i));
      best.column = e_.add(best.column, e_.to_i32(p_.column0));
      keys.raise(e_.add(p_.row0, i), pack(e_, best));
    });
    e_.when(kernel_.last_arrival(keys.ticket_counter(position_.x), step_.tiles(e_).y), [&] {
      for_each_row([&](Value i) {
        Best best = unpack(e_, keys.take(e_.add(p_.row0, i)));
        store_best(e_, *program, i, best, arguments.get("index_offset"));
      });
    });
    return success();
  }

  Emit& e_;
  GpuKernel& kernel_;
  const GpuStep& step_;
  TileProgram& p_;
  const GridPosition& position_;
  bool whole_ = false;
  Value keys_;
};

}  // namespace

std::unique_ptr<OutputSink> make_argmax_sink(Emit& e, GpuKernel& kernel, const GpuStep& step, TileProgram& p,
                                             const GridPosition& position) {
  return std::make_unique<ArgmaxSink>(e, kernel, step, p, position);
}

}  // namespace lathe::emit
