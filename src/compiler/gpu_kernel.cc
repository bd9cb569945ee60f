#include "compiler/gpu_kernel.h"

namespace lathe::emit {
using namespace mlir;

namespace {

constexpr unsigned kGlobalMemory = 1;  // the address space of global pointers, on NVPTX and AMDGPU alike

Value position_along(Emit& e, gpu::Dimension dimension) {
  return gpu::BlockIdOp::create(e.b, e.loc, e.index(), dimension, /*upper_bound=*/IntegerAttr());
}

ir::KernelConfigAttr config_of(func::FuncOp payload) {
  ir::KernelConfigAttr config;
  payload.walk([&](Operation* op) {
    if (!config) config = op->getAttrOfType<ir::KernelConfigAttr>(ir::kConfigAttr);
  });
  return config;
}

LogicalResult emit_kernel(OpBuilder& b, scf::ForallOp forall, ir::KernelConfigAttr config,
                          const GpuStepEmitter& emitter) {
  auto name = forall->getAttrOfType<StringAttr>(ir::kStepAttr);
  if (!name) return forall.emitError("has no ") << ir::kStepAttr;
  Location loc = forall.getLoc();
  MLIRContext* context = b.getContext();
  auto type = b.getFunctionType(parameter_types(context, kGlobalMemory), {});
  auto function = gpu::GPUFuncOp::create(b, loc, name.getValue(), type);
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  function.setKnownBlockSizeAttr(b.getDenseI32ArrayAttr({static_cast<int32_t>(config.getThreads()), 1, 1}));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&function.getBody().front());
  Emit e(b, loc);
  Arguments arguments =
      Arguments::from_parameters(e, function.getArguments().take_front(type.getNumInputs()));
  GpuKernel kernel(e, function, config);
  GridPosition position{position_along(e, gpu::Dimension::x), position_along(e, gpu::Dimension::y),
                        position_along(e, gpu::Dimension::z)};
  auto program = instantiate(e, forall, arguments, position);
  if (failed(program) || failed(emitter(e, kernel, arguments, *program))) return failure();
  b.setInsertionPointToEnd(&function.getBody().front());
  gpu::ReturnOp::create(b, loc);
  return success();
}

}  // namespace

GpuKernel::GpuKernel(Emit& e, gpu::GPUFuncOp function, ir::KernelConfigAttr config)
    : e_(e),
      function_(function),
      config_(config),
      thread_(gpu::ThreadIdOp::create(e.b, e.loc, e.index(), gpu::Dimension::x, IntegerAttr())) {}

Value GpuKernel::shared(Type element, int64_t elements) {
  auto space = gpu::AddressSpaceAttr::get(e_.b.getContext(), gpu::AddressSpace::Workgroup);
  auto type = MemRefType::get({elements}, element, MemRefLayoutAttrInterface(), space);
  Value memory = function_.addWorkgroupAttribution(type, e_.loc);
  function_.setWorkgroupAttributionAttr(function_.getNumWorkgroupAttributions() - 1,
                                        LLVM::LLVMDialect::getAlignAttrName(), e_.b.getI64IntegerAttr(16));
  return memory;
}

void GpuKernel::barrier() { gpu::BarrierOp::create(e_.b, e_.loc); }

LogicalResult emit_gpu_kernels(ModuleOp module, const GpuStepEmitter& emitter) {
  llvm::SmallVector<func::FuncOp> payloads(module.getOps<func::FuncOp>());
  OpBuilder b(module.getContext());
  b.setInsertionPointToEnd(module.getBody());
  auto kernels = gpu::GPUModuleOp::create(b, module.getLoc(), "kernels");
  for (func::FuncOp payload : payloads) {
    llvm::SmallVector<scf::ForallOp> steps(payload.getOps<scf::ForallOp>());
    if (steps.empty())
      return payload.emitError("has no distributed step: was the distribute stage left out?");
    ir::KernelConfigAttr config = config_of(payload);
    if (!config) return payload.emitError("has no op with a ") << ir::kConfigAttr;
    for (scf::ForallOp forall : steps) {
      b.setInsertionPointToEnd(kernels.getBody());
      if (failed(emit_kernel(b, forall, config, emitter))) return failure();
    }
    payload.erase();
  }
  module->setAttr(gpu::GPUDialect::getContainerModuleAttrName(), b.getUnitAttr());
  return success();
}

}  // namespace lathe::emit
