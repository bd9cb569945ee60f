// One workgroup reduces one slice of one row (or one row's partial results): every thread keeps the best of
// what it reads, columns ascending, and a tree over shared memory picks the best of those.
#include "kernels/argmax/emit_simt.h"

#include <limits>

#include "compiler/gpu_kernel.h"
#include "kernels/argmax/emit_best.h"

namespace lathe::emit {
namespace {
using namespace mlir;

// The start of every thread. Column 0 even where the thread reads nothing: it can win only if all are -inf.
Best lowest(Emit& e) {
  return {e.constant_f32(-std::numeric_limits<float>::infinity()),
          arith::ConstantOp::create(e.b, e.loc, e.b.getI32IntegerAttr(0))};
}

// Best of the elements [0, length) in steps of the workgroup, `unroll` of them in flight. Past the end the
// last element is read again, which never rises over itself.
Best scan(Emit& e, const GpuKernel& kernel, Value length, int64_t unroll,
          const std::function<Best(Value)>& element) {
  Best start = lowest(e);
  Value last = e.sub(length, e.idx(1));
  Values best = e.loop(kernel.thread(), length, unroll * kernel.threads(), {start.value, start.column},
                       [&](Value first, const Values& in) {
                         llvm::SmallVector<Best> read;
                         for (int64_t u = 0; u < unroll; ++u)
                           read.push_back(element(e.min(e.add(first, u * kernel.threads()), last)));
                         Best b{in[0], in[1]};
                         for (const Best& next : read) b = keep_better(e, b, next);
                         return Values{b.value, b.column};
                       });
  return {best[0], best[1]};
}

// The best of all threads', in thread 0.
Best reduce_threads(Emit& e, GpuKernel& kernel, const Best& mine) {
  Value values = kernel.shared(e.f32(), kernel.threads());
  Value columns = kernel.shared(e.b.getI32Type(), kernel.threads());
  auto put = [&](const Best& b) {
    e.store(b.value, values, kernel.thread());
    e.store(b.column, columns, kernel.thread());
  };
  auto get = [&](Value at) { return Best{e.load(values, at), e.load(columns, at)}; };
  put(mine);
  for (int64_t half = kernel.threads() / 2; half >= 1; half /= 2) {
    kernel.barrier();
    e.when(e.less(kernel.thread(), e.idx(half)),
           [&] { put(better(e, get(kernel.thread()), get(e.add(kernel.thread(), half)))); });
  }
  return get(e.idx(0));
}

LogicalResult emit_step(Emit& e, GpuKernel& kernel, const GpuStep& step) {
  FailureOr<TileProgram> program = step.at(e, step.block(e));
  if (failed(program)) return failure();
  TileProgram& p = *program;
  if (!p.argmax) return emitError(e.loc, "an argmax step needs an op with a kernel_config");
  const int64_t threads = kernel.threads(), unroll = kernel.config().getRegisterN();
  if (threads & (threads - 1)) return p.argmax->emitError("kernel_config: threads are not a power of two");
  if (unroll < 1) return p.argmax->emitError("kernel_config: register_n is less than one");
  auto op = cast<linalg::GenericOp>(p.argmax);
  const View& first = p.views.find(op.getDpsInputs()[0])->second;
  const bool merge = op.getNumDpsInputs() == 2, partial = kernel.config().getSplit() && !merge;
  Best best;
  if (merge) {
    const View& columns = p.views.find(op.getDpsInputs()[1])->second;
    best = scan(e, kernel, p.depth, 1, [&](Value s) {
      return Best{e.load(first.memory, e.add(first.offset, e.mul(s, first.row_stride))),
                  e.load(columns.memory, e.add(columns.offset, e.mul(s, columns.row_stride)))};
    });
  } else {
    best = scan(e, kernel, p.depth, unroll, [&](Value column) {
      return Best{e.to_f32(e.load(first.memory, e.add(first.offset, column))),
                  arith::IndexCastOp::create(e.b, e.loc, e.b.getI32Type(), column)};
    });
  }
  best = reduce_threads(e, kernel, best);
  e.when(e.equal(kernel.thread(), e.idx(0)),
         [&] { store_best(e, p, best, partial ? p.first_column : step.arguments().get("index_offset")); });
  return success();
}

}  // namespace

LogicalResult emit_argmax_simt(ModuleOp module) { return emit_gpu_kernels(module, emit_step); }

}  // namespace lathe::emit
