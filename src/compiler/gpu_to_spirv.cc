// lathe-gpu-to-spirv: lowers the kernels of a gpu.module to the form that LLVM's SPIR-V back end reads: OpenCL
// kernels that call OpenCL's work-item functions. reqd_work_group_size becomes OpExecutionMode LocalSize.
#include "compiler/mlir.h"
#include "compiler/passes.h"
#include "mlir/Conversion/ConvertToLLVM/ToLLVMInterface.h"
#include "mlir/Conversion/GPUToLLVMSPV/GPUToLLVMSPVPass.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/MemRefBuilder.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Transforms/DialectConversion.h"

namespace lathe {
namespace {
using namespace mlir;

constexpr unsigned kWorkgroupMemory = 3;  // the address space for storage class Workgroup

// Turns shared memory into variables of the module, which have a fixed size. MLIR's conversion would turn it
// into kernel parameters, whose size the host would have to pass.
void make_shared_variables(gpu::GPUFuncOp kernel, const LLVMTypeConverter& types) {
  const Location loc = kernel.getLoc();
  const unsigned count = kernel.getNumWorkgroupAttributions();
  const unsigned first = kernel.getFunctionType().getNumInputs();
  Block& entry = kernel.getBody().front();
  for (unsigned i = 0; i < count; ++i) {
    BlockArgument argument = entry.getArgument(first + i);
    auto type = cast<MemRefType>(argument.getType());
    OpBuilder b(kernel);
    Type array = LLVM::LLVMArrayType::get(types.convertType(type.getElementType()), type.getNumElements());
    auto alignment =
        cast<IntegerAttr>(kernel.getWorkgroupAttributionAttr(i, LLVM::LLVMDialect::getAlignAttrName()));
    const std::string name = (kernel.getName() + "_shared_" + Twine(i)).str();
    LLVM::GlobalOp::create(b, loc, array, /*isConstant=*/false, LLVM::Linkage::Internal, name, Attribute(),
                           alignment.getInt(), kWorkgroupMemory);
    b.setInsertionPointToStart(&entry);
    Value address =
        LLVM::AddressOfOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext(), kWorkgroupMemory), name);
    Value descriptor = MemRefDescriptor::fromStaticShape(b, loc, types, type, address);
    argument.replaceAllUsesWith(UnrealizedConversionCastOp::create(b, loc, type, descriptor).getResult(0));
  }
  entry.eraseArguments(first, count);
  kernel.removeWorkgroupAttribAttrsAttr();
  kernel->setAttr(gpu::GPUFuncOp::getNumWorkgroupAttributionsAttrName(),
                  IntegerAttr::get(IntegerType::get(kernel.getContext(), 64), 0));
}

struct GpuToSpirvPass : PassWrapper<GpuToSpirvPass, OperationPass<gpu::GPUModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(GpuToSpirvPass)
  StringRef getArgument() const override { return "lathe-gpu-to-spirv"; }
  StringRef getDescription() const override { return "Lower kernels for LLVM's SPIR-V back end"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<LLVM::LLVMDialect>();
  }

  void runOnOperation() override {
    MLIRContext* context = &getContext();
    LowerToLLVMOptions options(context);
    options.overrideIndexBitwidth(64);
    LLVMTypeConverter types(context, options);
    populateGpuMemorySpaceAttributeConversions(types);
    // After arith-expand, bf16 values are only moved, so i16 is enough. SPIR-V has bf16 only as an extension.
    types.addConversion([](BFloat16Type type) { return IntegerType::get(type.getContext(), 16); });
    for (gpu::GPUFuncOp kernel : getOperation().getOps<gpu::GPUFuncOp>())
      make_shared_variables(kernel, types);

    LLVMConversionTarget target(*context);
    target.addIllegalDialect<gpu::GPUDialect>();
    target.addLegalOp<gpu::GPUModuleOp>();
    RewritePatternSet patterns(context);
    for (Dialect* dialect : context->getLoadedDialects())
      if (auto* lowering = dyn_cast<ConvertToLLVMPatternInterface>(dialect))
        lowering->populateConvertToLLVMConversionPatterns(target, types, patterns);
    populateGpuToLLVMSPVConversionPatterns(types, patterns);
    if (failed(applyPartialConversion(getOperation(), target, std::move(patterns)))) signalPassFailure();
  }
};

}  // namespace

std::unique_ptr<Pass> make_gpu_to_spirv_pass() { return std::make_unique<GpuToSpirvPass>(); }

}  // namespace lathe
