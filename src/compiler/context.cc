#include "compiler/context.h"

#include "absl/strings/str_cat.h"
#include "compiler/dialect.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/ConvertToLLVM/ToLLVMInterface.h"
#include "mlir/Conversion/ConvertToLLVM/ToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/AMDGPU/IR/AMDGPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/ROCDL/ROCDLToLLVMIRTranslation.h"

namespace lathe {
namespace {

const mlir::DialectRegistry& dialects() {
  static const mlir::DialectRegistry registry = [] {
    using namespace mlir;
    DialectRegistry r;
    r.insert<ir::LatheDialect, affine::AffineDialect, amdgpu::AMDGPUDialect, arith::ArithDialect,
             cf::ControlFlowDialect, func::FuncDialect, gpu::GPUDialect, linalg::LinalgDialect,
             LLVM::LLVMDialect, math::MathDialect, memref::MemRefDialect, NVVM::NVVMDialect,
             ROCDL::ROCDLDialect, scf::SCFDialect, tensor::TensorDialect, ub::UBDialect,
             vector::VectorDialect>();
    registerConvertToLLVMDependentDialectLoading(r);
    arith::registerConvertArithToLLVMInterface(r);
    cf::registerConvertControlFlowToLLVMInterface(r);
    registerConvertMemRefToLLVMInterface(r);
    registerConvertMathToLLVMInterface(r);
    ub::registerConvertUBToLLVMInterface(r);
    vector::registerConvertVectorToLLVMInterface(r);
    registerBuiltinDialectTranslation(r);
    registerLLVMDialectTranslation(r);
    registerGPUDialectTranslation(r);
    registerNVVMDialectTranslation(r);
    registerROCDLDialectTranslation(r);
    return r;
  }();
  return registry;
}

}  // namespace

CompilerContext::CompilerContext() : context_(dialects(), mlir::MLIRContext::Threading::DISABLED) {
  // Emitters create ops of dialects that no pass has announced.
  context_.loadAllAvailableDialects();
}

absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> CompilerContext::parse(const std::string& text) {
  std::string complaint;
  mlir::ScopedDiagnosticHandler handler(&context_, [&](mlir::Diagnostic& d) {
    absl::StrAppend(&complaint, complaint.empty() ? "" : "; ", d.str());
    return mlir::success();
  });
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, mlir::ParserConfig(&context_));
  if (!module) return absl::AbortedError(absl::StrCat("the payload does not parse: ", complaint));
  return module;
}

}  // namespace lathe
