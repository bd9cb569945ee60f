#include "compiler/gpu_kernel.h"

#include "compiler/launch_facts.h"
#include "compiler/ptx_hopper.h"
#include "core/plan.h"

namespace lathe::emit {
using namespace mlir;

namespace {

constexpr unsigned kGlobalMemory = 1;  // the address space of global pointers on NVPTX and on AMDGPU

Value position_along(Emit& e, gpu::Dimension dimension) {
  return e.widen(
      e.to_i32(gpu::BlockIdOp::create(e.b, e.loc, e.index(), dimension, /*upper_bound=*/IntegerAttr())));
}

using BodyEmitter = std::function<LogicalResult(Emit&, GpuKernel&, const Arguments&)>;

// Creates a kernel at the insertion point.
LogicalResult emit_function(OpBuilder& b, ModuleOp module, Location loc, StringRef name,
                            ir::KernelConfigAttr config, const BodyEmitter& body) {
  auto type = b.getFunctionType(parameter_types(b.getContext(), kGlobalMemory), {});
  auto function = gpu::GPUFuncOp::create(b, loc, name, type);
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  function.setKnownBlockSizeAttr(b.getDenseI32ArrayAttr({static_cast<int32_t>(config.threads()), 1, 1}));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&function.getBody().front());
  Emit e(b, loc);
  Arguments arguments =
      Arguments::from_parameters(e, function.getArguments().take_front(type.getNumInputs()));
  GpuKernel kernel(e, function, config);
  if (failed(body(e, kernel, arguments))) return failure();
  b.setInsertionPointToStart(&function.getBody().front());
  kernel.wait_for_earlier_kernel();
  b.setInsertionPointToEnd(&function.getBody().front());
  gpu::ReturnOp::create(b, loc);
  set_launch_facts(module, name, kernel.facts);
  return success();
}

LogicalResult emit_kernel(OpBuilder& b, ModuleOp module, scf::ForallOp forall, scf::ForallOp merge,
                          ir::KernelConfigAttr config, const GpuStepEmitter& emitter) {
  auto name = forall->getAttrOfType<StringAttr>(ir::kStepAttr);
  if (!name) return forall.emitError("has no ") << ir::kStepAttr;
  return emit_function(b, module, forall.getLoc(), name.getValue(), config,
                       [&](Emit& e, GpuKernel& kernel, const Arguments& arguments) {
                         return emitter(e, kernel, GpuStep(forall, merge, arguments));
                       });
}

}  // namespace

ir::KernelConfigAttr config_of(func::FuncOp payload) {
  ir::KernelConfigAttr config;
  payload.walk([&](Operation* op) {
    if (!config) config = op->getAttrOfType<ir::KernelConfigAttr>(ir::kConfigAttr);
  });
  return config;
}

GridPosition GpuStep::block(Emit& e) const {
  if (rows_) return {e.idx(0), position_along(e, gpu::Dimension::y), rows_->group};
  return {position_along(e, gpu::Dimension::x), position_along(e, gpu::Dimension::y),
          position_along(e, gpu::Dimension::z)};
}

GridPosition GpuStep::place_in_cluster(Emit& e, GridPosition block, int64_t ranks) const {
  if (ranks == 1) return block;
  Value z = e.to_i32(block.z), batch = e.to_i32(arguments_.get("batch"));
  Value split = e.rem(z, e.i32(ranks)), matrix = e.div(z, e.i32(ranks));
  block.z = e.widen(e.add(e.mul(split, batch), matrix));
  return block;
}

bool GpuStep::is_merge() const {
  auto steps = forall_->getParentOfType<func::FuncOp>().getOps<scf::ForallOp>();
  return *steps.begin() != forall_;
}

bool GpuStep::has_scales_apart() const {
  auto function = forall_->getParentOfType<func::FuncOp>();
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto name = function.getArgAttrOfType<StringAttr>(i, ir::kBlocksAttr);
    DType format = DType::kNone;
    if (name && parse(absl::string_view(name.data(), name.size()), &format) &&
        lathe::has_scales_apart(format))
      return true;
  }
  return false;
}

// In a step with splits, z is split * batch + matrix (distribute.cc).
llvm::FailureOr<TileProgram> GpuStep::merge_at(Emit& e, const GridPosition& position) const {
  return instantiate(e, merge_, arguments_,
                     {position.x, position.y, e.rem(position.z, arguments_.get("batch"))});
}

GpuKernel::GpuKernel(Emit& e, gpu::GPUFuncOp function, ir::KernelConfigAttr config)
    : e_(e),
      function_(function),
      config_(config),
      thread_(gpu::ThreadIdOp::create(e.b, e.loc, e.index(), gpu::Dimension::x, IntegerAttr())),
      workers_(config.threads()) {
  auto module = function->getParentOfType<ModuleOp>();
  arch_ = module->getAttrOfType<StringAttr>(ir::kArchAttr).getValue();
  alignment_ = static_cast<Alignment>(module->getAttrOfType<IntegerAttr>(ir::kAlignmentAttr).getInt());
  dependent_launch_ = DependentLaunch::kOff;
  if (auto dependent = module->getAttrOfType<IntegerAttr>(ir::kDependentLaunchAttr))
    dependent_launch_ = static_cast<DependentLaunch>(dependent.getInt());
  // The back end's name of the device scope. The default, used for SPIR-V, is the scope of all devices.
  const StringRef backend = module->getAttrOfType<StringAttr>(ir::kBackendAttr).getValue();
  device_scope_ = backend == "rocm" ? "agent" : backend == "cuda" ? "device" : "";
}

Value GpuKernel::shared(Type element, int64_t elements) {
  auto space = gpu::AddressSpaceAttr::get(e_.b.getContext(), gpu::AddressSpace::Workgroup);
  auto type = MemRefType::get({elements}, element, MemRefLayoutAttrInterface(), space);
  Value memory = function_.addWorkgroupAttribution(type, e_.loc);
  function_.setWorkgroupAttributionAttr(function_.getNumWorkgroupAttributions() - 1,
                                        LLVM::LLVMDialect::getAlignAttrName(), e_.b.getI64IntegerAttr(16));
  return memory;
}

void GpuKernel::barrier() {
  if (barrier_)
    barrier_();
  else
    gpu::BarrierOp::create(e_.b, e_.loc);
}

void GpuKernel::barrier_for_global_memory() {
  fence();
  barrier();
  fence();
}

Value GpuKernel::dynamic_shared(int64_t bytes) {
  constexpr char kSymbol[] = "lathe_dynamic_shared";
  constexpr unsigned kSharedMemory = 3;
  facts.shared_bytes = rocm() ? 0 : bytes;
  auto module = function_->getParentOfType<gpu::GPUModuleOp>();
  if (!module.lookupSymbol(kSymbol)) {
    OpBuilder::InsertionGuard guard(e_.b);
    e_.b.setInsertionPointToStart(module.getBody());
    LLVM::GlobalOp::create(e_.b, e_.loc, LLVM::LLVMArrayType::get(e_.b.getI8Type(), rocm() ? bytes : 0),
                           /*isConstant=*/false, rocm() ? LLVM::Linkage::Internal : LLVM::Linkage::External,
                           kSymbol, Attribute(), /*alignment=*/1024, kSharedMemory);
  }
  return LLVM::AddressOfOp::create(e_.b, e_.loc, LLVM::LLVMPointerType::get(e_.b.getContext(), kSharedMemory),
                                   kSymbol);
}

Value GpuKernel::tensor_map(const TensorMap& map) {
  facts.tensor_maps.push_back(map);
  auto pointer = LLVM::LLVMPointerType::get(e_.b.getContext());
  const unsigned at = function_.getFunctionType().getNumInputs();
  if (failed(function_.insertArgument(at, pointer, DictionaryAttr(), e_.loc))) return nullptr;
  return function_.getArgument(at);
}

// After the wait, the next kernel may start at once: it waits for this kernel in turn, and all workgroups of
// this one have already started, so it takes no resources from them. Before the wait it would be wrong: a third
// kernel could start while the first still runs.
void GpuKernel::wait_for_earlier_kernel() {
  if (dependent_launch_ == DependentLaunch::kOff || has_waited_) return;
  has_waited_ = true;
  facts.attributes.emplace_back("pdl");
  for (const char* instruction : {"griddepcontrol.wait;", "griddepcontrol.launch_dependents;"})
    inline_ptx(e_, instruction, "~{memory}", {});
}

void GpuKernel::fence() { LLVM::FenceOp::create(e_.b, e_.loc, LLVM::AtomicOrdering::acq_rel, device_scope_); }

Value GpuKernel::atomic(LLVM::AtomicBinOp operation, Value memory, Value operand) const {
  auto op = LLVM::AtomicRMWOp::create(e_.b, e_.loc, operation, memory, operand,
                                      LLVM::AtomicOrdering::monotonic, device_scope_);
  // These attributes promise that no other device uses the memory. Without them AMD's back end emits
  // compare-and-swap loops for max and for wrapping increments.
  if (rocm())
    for (const char* absent : {"rocdl.no_fine_grained_memory", "rocdl.no_remote_memory"})
      op->setAttr(absent, e_.b.getUnitAttr());
  return op;
}

Value GpuKernel::take_ticket(Value counter, Value tickets) {
  Value last = e_.to_i32(e_.sub(tickets, e_.idx(1)));
  // The counter wraps to 0 at the last ticket. NVPTX drops the ordering of an atomic operation, so fences order
  // it. The same thread must run them, because the release and acquire patterns of PTX's memory model are
  // defined within one thread.
  fence();
  Value ticket = atomic(LLVM::AtomicBinOp::uinc_wrap, counter, last);
  fence();
  return e_.equal(ticket, last);
}

Value GpuKernel::last_arrival(Value counter, Value tickets) {
  Type i32 = e_.b.getI32Type();
  Value mine = shared(i32, 1);
  Value zero = e_.idx(0);
  // On gfx942 a barrier of the workgroup does not wait for stores, so every wave fences its own. In PTX's
  // memory model the barriers order the stores of all threads before the fence of the thread that takes the
  // ticket, and that fence before the reads of all threads.
  const bool every_wave = device_scope_ == "agent";
  if (every_wave) fence();
  barrier();
  e_.when(e_.equal(thread_, zero), [&] {
    e_.store(arith::ExtUIOp::create(e_.b, e_.loc, i32, take_ticket(counter, tickets)), mine, zero);
  });
  barrier();
  if (every_wave) fence();
  return e_.equal(e_.load(mine, zero), e_.i32(1));
}

LogicalResult add_gpu_kernel(ModuleOp module, StringRef symbol, ir::KernelConfigAttr config,
                             const GpuKernelEmitter& emitter) {
  OpBuilder b(module.getContext());
  for (gpu::GPUModuleOp kernels : module.getOps<gpu::GPUModuleOp>())
    b.setInsertionPointToEnd(kernels.getBody());
  return emit_function(b, module, module.getLoc(), symbol, config,
                       [&](Emit& e, GpuKernel& kernel, const Arguments& arguments) {
                         emitter(e, kernel, arguments);
                         return success();
                       });
}

LogicalResult emit_gpu_kernels(ModuleOp module, const GpuStepEmitter& emitter) {
  llvm::SmallVector<func::FuncOp> payloads(module.getOps<func::FuncOp>());
  OpBuilder b(module.getContext());
  b.setInsertionPointToEnd(module.getBody());
  auto kernels = gpu::GPUModuleOp::create(b, module.getLoc(), "kernels");
  for (func::FuncOp payload : payloads) {
    llvm::SmallVector<scf::ForallOp> steps(payload.getOps<scf::ForallOp>());
    if (steps.empty())
      return payload.emitError("has no scf.forall: does the pipeline lack the distribute stage?");
    ir::KernelConfigAttr config = config_of(payload);
    if (!config) return payload.emitError("has no op with a ") << ir::kConfigAttr;
    const bool one_launch = config.split() == kMergeLast || config.split() == kMergeCluster;
    if (one_launch && steps.size() != 2) return payload.emitError("has a split but no step that merges it");
    for (size_t i = 0; i < (one_launch ? 1 : steps.size()); ++i) {
      b.setInsertionPointToEnd(kernels.getBody());
      if (failed(emit_kernel(b, module, steps[i], one_launch ? steps[1] : scf::ForallOp(), config, emitter)))
        return failure();
    }
    payload.erase();
  }
  module->setAttr(gpu::GPUDialect::getContainerModuleAttrName(), b.getUnitAttr());
  return success();
}

}  // namespace lathe::emit
