// A task computes one tile of products as the matmul does. Then it passes each row, vector by vector, through
// the epilogue and the rounding to the logits' dtype into a running maximum.
#include "kernels/matmul_argmax/emit_cpu.h"

#include <algorithm>
#include <limits>

#include "compiler/cpu_task.h"
#include "core/plan.h"
#include "kernels/argmax/emit_cpu.h"
#include "kernels/matmul/cpu/emit.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kUnroll = 4;  // vectors of running maxima, if the tile is wide enough

llvm::FailureOr<int64_t> emit_tile(Emit& e, const Arguments& arguments, TileProgram& p) {
  auto config = p.contraction->getAttrOfType<ir::KernelConfigAttr>(ir::kConfigAttr);
  llvm::FailureOr<CpuProducts> products = emit_products(e, arguments, p);
  if (failed(products)) return failure();
  const int64_t lanes = products->words.lanes;
  const int64_t unroll = std::clamp<int64_t>(config.tile_n() / lanes, 1, kUnroll);
  // A pair in the workspace has its column in the whole row. If no merge follows, index_offset is added here.
  Value first = p.column0;
  if (config.split() == kNoSplit) first = e.add(first, arguments.get("index_offset"));
  e.loop(e.idx(0), p.rows, 1, [&](Value i) {
    const auto load = [&](Value j, Value left) -> Value {
      Value x = e.to_f32(finish_vector(e, p, products->at(e, i, j), i, j, left));
      if (!left) return x;
      Value mask = vector::CreateMaskOp::create(e.b, e.loc, e.vec(lanes, e.b.getI1Type()), ValueRange(left));
      Value lowest = e.splat(e.vec(lanes, e.f32()), -std::numeric_limits<double>::infinity());
      return arith::SelectOp::create(e.b, e.loc, mask, x, lowest);
    };
    store_best(e, p, i, reduce_row(e, p.columns, lanes, unroll, load), first);
  });
  return products->scratch_bytes;
}

}  // namespace

LogicalResult emit_matmul_argmax_cpu(ModuleOp module) {
  return emit_cpu_tasks(
      module, [](Emit& e, const Arguments& arguments, TileProgram& p) -> llvm::FailureOr<int64_t> {
        if (p.contraction && p.argmax) return emit_tile(e, arguments, p);
        if (!p.argmax)
          return emitError(e.loc, "a matmul_argmax step needs a reduction of values and columns");
        store_best(e, p, e.idx(0), merge_row(e, p), arguments.get("index_offset"));
        return int64_t{0};
      });
}

}  // namespace lathe::emit
