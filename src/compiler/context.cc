#include "compiler/context.h"

#include "absl/strings/str_cat.h"
#include "compiler/dialect.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/ConvertToLLVM/ToLLVMInterface.h"
#include "mlir/Conversion/ConvertToLLVM/ToLLVMPass.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Conversion/XeVMToLLVM/XeVMToLLVM.h"
#include "mlir/Dialect/AMDGPU/IR/AMDGPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Dialect/LLVMIR/XeVMDialect.h"
#include "mlir/Dialect/XeGPU/IR/XeGPU.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/ROCDL/ROCDLToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/XeVM/XeVMToLLVMIRTranslation.h"

namespace lathe {
namespace {

mlir::DialectRegistry cpu_dialects() {
  using namespace mlir;
  DialectRegistry r;
  r.insert<ir::LatheDialect, affine::AffineDialect, arith::ArithDialect, cf::ControlFlowDialect,
           func::FuncDialect, gpu::GPUDialect, linalg::LinalgDialect, LLVM::LLVMDialect, math::MathDialect,
           memref::MemRefDialect, scf::SCFDialect, tensor::TensorDialect, ub::UBDialect,
           vector::VectorDialect>();
  registerConvertToLLVMDependentDialectLoading(r);
  arith::registerConvertArithToLLVMInterface(r);
  cf::registerConvertControlFlowToLLVMInterface(r);
  registerConvertFuncToLLVMInterface(r);
  registerConvertMemRefToLLVMInterface(r);
  registerConvertMathToLLVMInterface(r);
  ub::registerConvertUBToLLVMInterface(r);
  vector::registerConvertVectorToLLVMInterface(r);
  registerBuiltinDialectTranslation(r);
  registerLLVMDialectTranslation(r);
  registerGPUDialectTranslation(r);
  return r;
}

// The NVVM, ROCDL and AMDGPU dialects have hundreds of ops. CPU compilations leave them out to save time.
mlir::DialectRegistry all_dialects() {
  mlir::DialectRegistry r = cpu_dialects();
  r.insert<mlir::amdgpu::AMDGPUDialect, mlir::NVVM::NVVMDialect, mlir::ROCDL::ROCDLDialect>();
  mlir::registerNVVMDialectTranslation(r);
  mlir::registerROCDLDialectTranslation(r);
  return r;
}

mlir::DialectRegistry spirv_dialects() {
  mlir::DialectRegistry r = cpu_dialects();
  r.insert<mlir::xegpu::XeGPUDialect, mlir::xevm::XeVMDialect>();
  mlir::registerConvertXeVMToLLVMInterface(r);
  mlir::registerXeVMDialectTranslation(r);
  return r;
}

const mlir::DialectRegistry& dialects(Dialects which) {
  static const mlir::DialectRegistry cpu = cpu_dialects(), spirv = spirv_dialects(), all = all_dialects();
  switch (which) {
    case Dialects::kCpu: return cpu;
    case Dialects::kSpirv: return spirv;
    case Dialects::kAll: break;
  }
  return all;
}

}  // namespace

Dialects dialects_of(Backend backend) {
  switch (backend) {
    case Backend::kCpu: return Dialects::kCpu;
    case Backend::kSpirv: return Dialects::kSpirv;
    default: return Dialects::kAll;
  }
}

CompilerContext::CompilerContext(Dialects which)
    : context_(dialects(which), mlir::MLIRContext::Threading::DISABLED) {
  // Emitters create ops of dialects that no pass declares as dependent.
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
