// The frame of every CPU matmul step: task -> tile -> products in scratch -> epilogue -> D.
#include "kernels/matmul/emit_cpu.h"

#include "base/dtype.h"
#include "compiler/cpu_task.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kAlign = 16;  // f32 elements of a cache line

int64_t padded(int64_t size, int64_t multiple) { return round_up(size, std::max<int64_t>(multiple, 1)); }

// Runs `row(i, j, lanes_left or null)` over the tile's vectors: whole vectors first, then one masked.
void for_each_vector(Emit& e, Value rows, Value columns, int64_t lanes,
                     const std::function<void(Value i, Value j, Value left)>& body) {
  Value whole = e.mul(e.div(columns, e.idx(lanes)), lanes);
  e.loop(e.idx(0), rows, 1, [&](Value i) {
    e.loop(e.idx(0), whole, lanes, [&](Value j) { body(i, j, nullptr); });
    e.when(e.less(whole, columns), [&] { body(i, whole, e.sub(columns, whole)); });
  });
}
Value load_lanes(Emit& e, Value memory, Value at, int64_t lanes, Value left) {
  return left ? e.load_masked(memory, at, lanes, left) : e.load_vector(memory, at, lanes);
}

// Writes the tile: `products(i, j, left)` yields f32 vectors, which pass through the epilogue if there is
// one.
void write_tile(Emit& e, const TileProgram& p, int64_t lanes,
                const std::function<Value(Value i, Value j, Value left)>& products) {
  auto inside = [&](const View& v, Value i, Value j) {
    return e.add(v.offset, e.add(e.mul(i, v.row_stride), j));
  };
  for_each_vector(e, p.rows, p.columns, lanes, [&](Value i, Value j, Value left) {
    Value result = products(i, j, left);
    if (p.epilogue) {
      auto op = const_cast<TileProgram&>(p).epilogue;
      Values inputs = {result};
      for (Value input : llvm::drop_begin(op.getDpsInputs())) {
        const View& v = p.views.find(input)->second;
        inputs.push_back(load_lanes(e, v.memory, inside(v, i, j), lanes, left));
      }
      inputs.push_back(nullptr);
      result = inline_elementwise(e, op, inputs, lanes, p.mapping);
    }
    Value at = inside(p.output, i, j);
    if (left)
      e.store_masked(result, p.output.memory, at, left);
    else
      e.store_vector(result, p.output.memory, at);
  });
}

bool k_contiguous(linalg::LinalgOp op, unsigned operand) {
  AffineMap map = op.getMatchingIndexingMap(op.getDpsInputOperand(operand));
  return cast<AffineDimExpr>(map.getResults().back()).getPosition() == 3;
}

// A step that contracts: one tile of products, then the epilogue (or the store of partial results).
llvm::FailureOr<int64_t> emit_contraction(Emit& e, const Arguments& arguments, TileProgram& p) {
  CpuTile t;
  t.config = p.contraction->getAttrOfType<ir::KernelConfigAttr>(ir::kConfigAttr);
  t.a = p.views.find(p.contraction.getDpsInputs()[0])->second;
  t.b = p.views.find(p.contraction.getDpsInputs()[1])->second;
  t.a_k_contiguous = k_contiguous(p.contraction, 0);
  t.b_k_contiguous = k_contiguous(p.contraction, 1);
  t.rows = p.rows, t.columns = p.columns, t.depth = p.depth;
  if (t.config.getRegisterM() < 1 || t.config.getRegisterN() < 1)
    return p.contraction.emitError("kernel_config without register tile");
  t.ld = padded(padded(t.config.getTileN(), t.config.getRegisterN()), kAlign);
  int64_t accumulator_elements = padded(padded(t.config.getTileM(), t.config.getRegisterM()) * t.ld, kAlign);
  Value scratch = arguments.get("scratch");
  t.accumulators = memory_at(e, scratch, e.f32());
  Value after = LLVM::GEPOp::create(e.b, e.loc, scratch.getType(), e.f32(), scratch,
                                    llvm::ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(accumulator_elements)});
  t.packing = memory_at(e, after, e.f32());

  StringRef kernel = t.config.getKernel().getValue();
  int64_t packing_elements = 0;
  LogicalResult emitted = failure();
  if (kernel == "dot")
    emitted = emit_dot(e, t);
  else if (kernel == "outer")
    emitted = emit_outer(e, t);
  else if (kernel == "panel")
    emitted = emit_panel(e, t), packing_elements = panel_packing_elements(t.config);
  else
    return p.contraction.emitError("no CPU matmul kernel is named '") << kernel << "'";
  if (failed(emitted)) return failure();

  write_tile(e, p, t.config.getLanes(), [&](Value i, Value j, Value) {
    return e.load_vector(t.accumulators, e.add(e.mul(i, t.ld), j), t.config.getLanes());
  });
  return (accumulator_elements + packing_elements) * static_cast<int64_t>(sizeof(float));
}

// A merge step: partial results summed in ascending order of the split, then the epilogue.
int64_t emit_merge(Emit& e, const TileProgram& p, const Arguments& arguments, int64_t lanes) {
  auto op = const_cast<TileProgram&>(p).reduction;
  const View& partial = p.views.find(op.getDpsInputs()[0])->second;
  auto type = cast<RankedTensorType>(op.getDpsInputs()[0].getType());
  Value split_stride = e.mul(e.mul(arguments.get("batch"), arguments.get("m")), arguments.get("n"));
  write_tile(e, p, lanes, [&](Value i, Value j, Value left) {
    Value at = e.add(partial.offset, e.add(e.mul(i, partial.row_stride), j));
    return e.loop(e.idx(0), p.depth, 1, {e.splat(e.vec(lanes, type.getElementType()), 0.0)},
                  [&](Value s, const Values& sum) {
                    Value x = load_lanes(e, partial.memory, e.add(at, e.mul(s, split_stride)), lanes, left);
                    return Values{arith::AddFOp::create(e.b, e.loc, sum[0], x)};
                  })[0];
  });
  return 0;
}

}  // namespace

LogicalResult emit_matmul_cpu(ModuleOp module) {
  int64_t lanes = 1;
  module.walk([&](linalg::LinalgOp op) {
    if (auto config = op->getAttrOfType<ir::KernelConfigAttr>(ir::kConfigAttr)) lanes = config.getLanes();
  });
  return emit_cpu_tasks(
      module, [lanes](Emit& e, const Arguments& arguments, TileProgram& p) -> llvm::FailureOr<int64_t> {
        if (p.contraction) return emit_contraction(e, arguments, p);
        if (p.reduction) return emit_merge(e, p, arguments, lanes);
        return emitError(e.loc, "a matmul step needs a contraction or a merge");
      });
}

}  // namespace lathe::emit
