// "rows" on GPUs: a thread takes register_n adjacent elements of a row, in one load if operands are aligned, from
// each of register_m rows. The workgroup's threads cover several rows at once; a thread's rows are that many apart.
#include "kernels/elementwise/emit_gpu.h"

#include "kernels/elementwise/emit_program.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kVectorBytes = 16;

class ThreadEmitter {
 public:
  ThreadEmitter(Emit& e, const GpuKernel& kernel, const TileProgram& p, ArrayRef<ElementwiseAccess> accesses)
      : e_(e),
        p_(p),
        accesses_(accesses),
        width_(kernel.config<GpuRowsConfig>().register_n),
        aligned_(kernel.alignment() == Alignment::k16) {}

  void emit(Value row, Value column) {
    Value behind = e_.add(column, width_);
    Value fits = arith::CmpIOp::create(e_.b, e_.loc, arith::CmpIPredicate::ule, behind, p_.columns);
    if (width_ == 1) return e_.when(e_.less(column, p_.columns), [&] { one(row, column); });
    e_.choose(
        fits, {},
        [&] {
          vector(row, column);
          return Values();
        },
        [&] {
          e_.loop(column, p_.columns, 1, [&](Value j) { one(row, j); });
          return Values();
        });
  }

 private:
  Value output_at(Value row, Value column) {
    return e_.add(e_.add(p_.output.offset, e_.mul(row, p_.output.row_stride)), column);
  }
  void one(Value row, Value column) {
    Values inputs;
    for (const ElementwiseAccess& a : accesses_)
      inputs.push_back(e_.load(a.view.memory, a.at(e_, row, column), a.view.alignment));
    Value result = elementwise_result(e_, p_, inputs, row, column, 0);
    e_.store(result, p_.output.memory, output_at(row, column), p_.output.alignment);
  }
  // Memory is accessed in vectors; results are computed element by element.
  void vector(Value row, Value column) {
    SmallVector<Values> inputs(static_cast<size_t>(width_));
    for (const ElementwiseAccess& a : accesses_) {
      const Values elements = load(a, row, column);
      for (auto [lane, element] : llvm::zip(inputs, elements)) lane.push_back(element);
    }
    Values results;
    for (int64_t l = 0; l < width_; ++l)
      results.push_back(
          elementwise_result(e_, p_, inputs[static_cast<size_t>(l)], row, e_.add(column, l), 0));
    Value all = vector::FromElementsOp::create(e_.b, e_.loc, e_.vec(width_, p_.output.element), results);
    e_.store_vector(all, p_.output.memory, output_at(row, column), alignment_of(p_.output));
  }
  Values load(const ElementwiseAccess& a, Value row, Value column) {
    Values elements;
    if (a.kind == ElementwiseAccess::kAlongN) {
      Value all = e_.load_vector(a.view.memory, a.at(e_, row, column), width_, alignment_of(a.view));
      for (int64_t l = 0; l < width_; ++l)
        elements.push_back(vector::ExtractOp::create(e_.b, e_.loc, all, ArrayRef<int64_t>{l}));
      return elements;
    }
    for (int64_t l = 0; l < width_; ++l) {
      const bool again = l > 0 && a.kind == ElementwiseAccess::kPerRow;
      elements.push_back(again ? elements[0]
                               : e_.load(a.view.memory, a.at(e_, row, e_.add(column, l)), a.view.alignment));
    }
    return elements;
  }
  int64_t alignment_of(const View& v) const {
    const int64_t bytes = v.element.getIntOrFloatBitWidth() / 8;
    if (v.alignment != 0) return v.alignment;
    return aligned_ ? std::min(kVectorBytes, width_ * bytes) : bytes;
  }

  Emit& e_;
  const TileProgram& p_;
  ArrayRef<ElementwiseAccess> accesses_;
  int64_t width_;
  bool aligned_;
};

LogicalResult emit_step(Emit& e, GpuKernel& kernel, const GpuStep& step) {
  FailureOr<TileProgram> program = step.at(e, step.block(e));
  if (failed(program)) return failure();
  TileProgram& p = *program;
  if (!p.epilogue) return emitError(e.loc, "an elementwise step needs a linalg.generic of parallel loops");
  const auto& config = kernel.config<GpuRowsConfig>();
  const int64_t width = config.register_n, across = width < 1 ? 0 : config.tile_n / width;
  if (across < 1 || kernel.threads() % across != 0 ||
      kernel.threads() / across * config.register_m != config.tile_m)
    return p.epilogue.emitError("kernel_config: the threads' elements do not make up the tile");
  auto accesses = elementwise_accesses(p);
  if (failed(accesses)) return failure();
  Value row0 = e.div(kernel.thread(), e.idx(across));
  Value column = e.mul(e.rem(kernel.thread(), e.idx(across)), width);
  ThreadEmitter thread(e, kernel, p, *accesses);
  for (int64_t r = 0; r < config.register_m; ++r) {
    Value row = e.add(row0, r * (kernel.threads() / across));
    e.when(e.less(row, p.rows), [&] { thread.emit(row, column); });
  }
  return success();
}

}  // namespace

LogicalResult emit_elementwise_gpu(ModuleOp module) { return emit_gpu_kernels(module, emit_step); }

}  // namespace lathe::emit
