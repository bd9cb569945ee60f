#include "compiler/cpu_task.h"

#include "compiler/dialect.h"

namespace lathe::emit {
using namespace mlir;

LogicalResult emit_cpu_tasks(ModuleOp module, const StepEmitter& emitter) {
  llvm::SmallVector<func::FuncOp> payloads(module.getOps<func::FuncOp>());
  MLIRContext* context = module.getContext();
  OpBuilder b(context);
  int64_t scratch = 0;
  for (func::FuncOp payload : payloads) {
    llvm::SmallVector<scf::ForallOp> steps(payload.getOps<scf::ForallOp>());
    if (steps.empty())
      return payload.emitError("has no scf.forall: does the pipeline lack the distribute stage?");
    payload.setName((payload.getName() + ".payload").str());
    for (scf::ForallOp forall : steps) {
      auto name = forall->getAttrOfType<StringAttr>(ir::kStepAttr);
      if (!name) return forall.emitError("has no ") << ir::kStepAttr;
      Location loc = forall.getLoc();
      b.setInsertionPointToEnd(module.getBody());
      auto type = b.getFunctionType({LLVM::LLVMPointerType::get(context), b.getI64Type()}, {});
      auto function = func::FuncOp::create(b, loc, name.getValue(), type);
      Block* body = function.addEntryBlock();
      b.setInsertionPointToStart(body);
      Emit e(b, loc);
      Arguments arguments = Arguments::from_block(e, body->getArgument(0));
      Value task = arith::IndexCastOp::create(b, loc, e.index(), body->getArgument(1));
      GridPosition grid = grid_of(e, forall, arguments);
      GridPosition position{e.rem(task, grid.x), e.rem(e.div(task, grid.x), grid.y),
                            e.div(task, e.mul(grid.x, grid.y))};
      auto program = instantiate(e, forall, arguments, position);
      if (failed(program)) return failure();
      auto bytes = emitter(e, arguments, *program);
      if (failed(bytes)) return failure();
      scratch = std::max(scratch, *bytes);
      b.setInsertionPointToEnd(body);
      func::ReturnOp::create(b, loc);
    }
    payload.erase();
  }
  module->setAttr(kScratchAttr, b.getI64IntegerAttr(scratch));
  return success();
}

}  // namespace lathe::emit
