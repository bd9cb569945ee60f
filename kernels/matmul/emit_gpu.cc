#include "kernels/matmul/emit_gpu.h"

#include <algorithm>
#include <string>

#include "compiler/open_view.h"
#include "core/plan.h"
#include "kernels/argmax/emit_gpu.h"
#include "kernels/matmul/emit_scales.h"
#include "kernels/matmul/grouped/emit.h"
#include "kernels/matmul/xegpu/emit.h"
#include "kernels/matmul_argmax/emit_sink.h"

namespace lathe::emit {
using namespace mlir;

namespace {

struct FamilyRow {
  KernelKind kind;
  MatmulFamily emit;
};
constexpr FamilyRow kFamilies[] = {
    {KernelKind::kSimt, emit_simt},       {KernelKind::kMma, emit_mma},
    {KernelKind::kMma32, emit_mma},       {KernelKind::kUkernel, emit_mma},
    {KernelKind::kWgmma, emit_wgmma},     {KernelKind::kSkinny, emit_skinny},
    {KernelKind::kTcgen05, emit_tcgen05}, {KernelKind::kXegpu, emit_xegpu},
};
static_assert(emits_every_kernel(kFamilies, Op::kMatmul,
                                 set_of(Backend::kCuda, Backend::kRocm, Backend::kSpirv)));

LogicalResult emit_factored_step(Emit& e, GpuKernel& kernel, const GpuStep& step) {
  if (step.is_merge()) {
    FailureOr<TileProgram> program = step.at(e, step.block(e));
    if (failed(program)) return failure();
    // Allow 1024 resident threads, that is 64 registers each: enough to avoid spills with any epilogue.
    // Without this hint ptxas limits itself to 32 registers, and nvJitLink takes 94.
    constexpr int64_t kResidentThreads = 1024;
    kernel.facts.function_attributes.push_back(
        {"nvvm.minctasm", std::to_string(std::max<int64_t>(kResidentThreads / kernel.threads(), 1))});
    if (program->argmax)
      emit_pairs_merge(e, kernel, step, *program);
    else
      emit_merge(e, kernel, step.arguments(), *program);
    return success();
  }
  const KernelKind kind = kernel.config().kernel();
  for (const FamilyRow& family : kFamilies)
    if (kind == family.kind) {
      const Rows rows = rows_of(kernel.module());
      return rows == Rows::kPlain ? family.emit(e, kernel, step)
                                  : emit_some_rows(e, kernel, step, rows, family.emit);
    }
  return emitError(e.loc, "no GPU matmul kernel is named '") << row_of(kind).name << "'";
}

LogicalResult emit_step(Emit& e, GpuKernel& kernel, const GpuStep& step) {
  // A grouped product has factors for each group (grouped/emit.cc).
  if (!step.has_scales_apart() || is_grouped(rows_of(kernel.module())))
    return emit_factored_step(e, kernel, step);
  const Arguments factored = with_scale_factors(e, kernel, step, e.idx(0));
  return emit_factored_step(e, kernel, step.with(factored));
}

// Stores to D through the epilogue, or to the workspace.
class StoreSink : public OutputSink {
 public:
  StoreSink(Emit& e, GpuKernel& kernel, const GpuStep& step, TileProgram& p, const GridPosition& position)
      : e_(e), kernel_(kernel), step_(step), p_(p), position_(position) {}

  void row(Value i, ArrayRef<Value> columns, ArrayRef<Value> sums, int32_t) override {
    Value row = index(i), last_column = e_.sub(p_.columns, e_.idx(1));
    e_.when(e_.less(row, p_.rows), [&] {
      Values at, results;
      for (auto [column, sum] : llvm::zip(columns, sums)) {
        at.push_back(index(column));
        results.push_back(finish(e_, p_, sum, row, e_.min(at.back(), last_column)));
      }
      for (auto [column, result] : llvm::zip(at, results))
        e_.when(e_.less(column, p_.columns), [&, column = column, result = result] {
          Value to = inside(e_, p_.output, row, column);
          if (p_.output.dtype)
            store_open(e_, result, p_.output, to);
          else
            e_.store(result, p_.output.memory, to, p_.output.alignment);
        });
    });
  }
  LogicalResult done() override {
    return kernel_.config().split() == kMergeLast ? merge_last(e_, kernel_, step_, position_) : success();
  }

 private:
  Value index(Value x) { return x.getType().isIndex() ? x : e_.to_index(x); }

  Emit& e_;
  GpuKernel& kernel_;
  const GpuStep& step_;
  TileProgram& p_;
  const GridPosition& position_;
};

}  // namespace

std::unique_ptr<OutputSink> make_sink(Emit& e, GpuKernel& kernel, const GpuStep& step, TileProgram& p,
                                      const GridPosition& position) {
  if (p.argmax) return make_argmax_sink(e, kernel, step, p, position);
  return std::make_unique<StoreSink>(e, kernel, step, p, position);
}

LogicalResult emit_matmul_gpu(ModuleOp module) {
  if (!is_grouped(rows_of(module))) return emit_gpu_kernels(module, emit_step);
  std::string symbol;
  ir::KernelConfigAttr config;
  for (func::FuncOp payload : module.getOps<func::FuncOp>()) {
    symbol = payload.getName().str();
    config = config_of(payload);
  }
  if (!config) return module.emitError("a grouped product has no op with a ") << ir::kConfigAttr;
  if (failed(emit_gpu_kernels(module, emit_step))) return failure();
  return add_grouped_steps(module, symbol, config);
}

DType dtype_of(Type element) {
  if (element.isF32()) return DType::kF32;
  if (element.isF16()) return DType::kF16;
  if (element.isBF16()) return DType::kBF16;
  if (element.isInteger(8)) return DType::kI8;
  if (isa<Float8E4M3FNType>(element)) return DType::kF8E4M3;
  if (isa<Float8E5M2Type>(element)) return DType::kF8E5M2;
  if (isa<Float8E4M3FNUZType>(element)) return DType::kF8E4M3Fnuz;
  return isa<Float8E5M2FNUZType>(element) ? DType::kF8E5M2Fnuz : DType::kNone;
}

Value inside(Emit& e, const View& v, Value i, Value j) { return e.add(v.offset, e.add(row_at(e, v, i), j)); }

// The elements of a bias whose columns are `step` apart.
static Value load_columns(Emit& e, const View& v, Value step, Value j, int64_t lanes) {
  Values elements;
  for (int64_t l = 0; l < std::max<int64_t>(lanes, 1); ++l)
    elements.push_back(e.load(v.memory, e.add(v.offset, e.mul(e.add(j, l), step)), v.alignment));
  return lanes ? e.from_elements(elements) : elements[0];
}

Value finish(Emit& e, TileProgram& p, Value product, Value i, Value j, int64_t lanes) {
  if (!p.epilogue) return product;
  Values inputs = {product};
  const auto operands = p.epilogue.getDpsInputs();  // by value: the loop must not outlive it
  for (Value input : llvm::drop_begin(operands)) {
    const View& v = p.views.find(input)->second;
    if (Value step = p.mapping.lookupOrNull(input)) {
      inputs.push_back(load_columns(e, v, step, j, lanes));
      continue;
    }
    Value at = inside(e, v, i, j);
    if (v.dtype) {
      inputs.push_back(load_open(e, v, at));
      continue;
    }
    const int64_t bytes = v.element.getIntOrFloatBitWidth() / 8;
    inputs.push_back(lanes ? e.load_vector(v.memory, at, lanes, std::min<int64_t>(lanes * bytes, 16))
                           : e.load(v.memory, at, v.alignment));
  }
  inputs.push_back(nullptr);
  return inline_elementwise(e, p.epilogue, inputs, lanes, p.mapping);
}

namespace {

// Adds the partial results in ascending order of the split. `at`: offset of the first split's; `type`: a
// scalar or a vector of adjacent elements. Four loads are in flight together, because a single one would wait
// for L2 each time.
Value merge_splits(Emit& e, const View& partial, Value at, Value splits, Value split_stride, Type type) {
  constexpr int64_t kTogether = 4;
  const auto add = [&](Value sum, Value x) -> Value {
    if (partial.element.isInteger()) return arith::AddIOp::create(e.b, e.loc, sum, x);
    return arith::AddFOp::create(e.b, e.loc, sum, x);
  };
  const auto load = [&](Value split) {
    Value place = e.add(at, e.mul(split, split_stride));
    auto vector = dyn_cast<VectorType>(type);
    return vector ? e.load_vector(partial.memory, place, vector.getNumElements(), 16)
                  : e.load(partial.memory, place);
  };
  const auto some = [&](int64_t count) {
    return [&, count](Value split, const Values& in) {
      Values loaded;
      for (int64_t i = 0; i < count; ++i) loaded.push_back(load(e.add(split, i)));
      Value sum = in[0];
      for (Value x : loaded) sum = add(sum, x);
      return Values{sum};
    };
  };
  Value whole = e.mul(e.div(splits, e.idx(kTogether)), kTogether);
  Values sum = e.loop(e.idx(0), whole, kTogether, {e.zero(type)}, some(kTogether));
  return e.loop(whole, splits, 1, sum, some(1))[0];
}

}  // namespace

void emit_merge(Emit& e, const GpuKernel& kernel, const Arguments& arguments, TileProgram& p) {
  const View& partial = p.views.find(p.reduction.getDpsInputs()[0])->second;
  Value split_stride = e.mul(e.mul(arguments.get("batch"), arguments.get("m")), arguments.get("n"));
  // Adjacent threads take adjacent columns of a row: four each if the rows of D and of the workspace (N wide)
  // are aligned for vectors of four.
  constexpr int64_t kLanes = 4;
  const bool aligned = kernel.alignment() == Alignment::k16 && kernel.config().tile_n() % kLanes == 0 &&
                       Emit::known(partial.row_stride).value_or(1) % kLanes == 0;
  const int64_t lanes = aligned ? kLanes : 1;
  Type type = lanes > 1 ? Type(e.vec(lanes, partial.element)) : partial.element;
  Value groups = e.to_i32(e.div(p.columns, e.idx(lanes))), all = e.mul(e.to_i32(p.rows), groups);
  e.loop(e.to_i32(kernel.thread()), all, kernel.workers(), [&](Value group) {
    Value i = e.to_index(e.div(group, groups)), j = e.to_index(e.mul(e.rem(group, groups), lanes));
    Value sum = merge_splits(e, partial, inside(e, partial, i, j), p.depth, split_stride, type);
    Value at = inside(e, p.output, i, j), result = finish(e, p, sum, i, j, lanes > 1 ? lanes : 0);
    const int64_t bytes = lanes * p.output.element.getIntOrFloatBitWidth() / 8;
    if (lanes > 1)
      e.store_vector(result, p.output.memory, at, bytes);
    else
      e.store(result, p.output.memory, at, p.output.alignment);
  });
}

LogicalResult merge_last(Emit& e, GpuKernel& kernel, const GpuStep& step, const GridPosition& position) {
  const Arguments& arguments = step.arguments();
  GridPosition tiles = step.tiles(e);
  Value batch = e.rem(position.z, arguments.get("batch"));
  Value tile = e.add(position.x, e.mul(tiles.x, e.add(position.y, e.mul(tiles.y, batch))));
  Value counters = arguments.get("counters");
  Value at = arith::IndexCastOp::create(e.b, e.loc, e.b.getI64Type(), tile);
  Value counter = LLVM::GEPOp::create(e.b, e.loc, counters.getType(), e.b.getI32Type(), counters,
                                      ArrayRef<LLVM::GEPArg>{at});
  LogicalResult result = success();
  e.when(kernel.last_arrival(counter, arguments.get("splits")), [&] {
    FailureOr<TileProgram> program = step.merge_at(e, position);
    if (failed(program))
      result = failure();
    else
      emit_merge(e, kernel, arguments, *program);
  });
  return result;
}

}  // namespace lathe::emit
