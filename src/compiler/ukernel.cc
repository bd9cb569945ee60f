#include "compiler/ukernel.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "compiler/user_ukernel.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectResourceBlobManager.h"

namespace lathe {
namespace {

struct Bitcode {
  absl::string_view name;
  const unsigned char* bytes;
  size_t size;
};
#include "ukernel_bitcodes.inc"

absl::Status error_of(ir::UkernelAttr ukernel, absl::string_view what) {
  return absl::AbortedError(absl::StrCat("ukernel '", ukernel.getFunction().str(), "' of bitcode '",
                                         ukernel.getBitcode().str(), "': ", what));
}

using Blob = mlir::DenseI8ResourceElementsAttr;

// Wraps the bytes without copying them.
Blob blob_of(ir::UkernelAttr ukernel, absl::string_view bytes) {
  const llvm::ArrayRef<char> data(bytes.data(), bytes.size());
  auto type = mlir::RankedTensorType::get(static_cast<int64_t>(bytes.size()),
                                          mlir::IntegerType::get(ukernel.getContext(), 8));
  return Blob::get(type, ukernel.getBitcode(), mlir::UnmanagedAsmResourceBlob::allocateInferAlign(data));
}

// `user` is the bitcode in the request. Its digest must match the one in the name, which is part of the cache key.
absl::StatusOr<Blob> find_bitcode(ir::UkernelAttr ukernel, absl::string_view user) {
  if (ukernel.getBitcode().getValue().starts_with("user/")) {
    if (user.empty()) return error_of(ukernel, "the request has no bitcode");
    if (!ukernel.getBitcode().getValue().ends_with("@" + bitcode_digest(user)))
      return error_of(ukernel, "the request's bitcode has another digest");
    return blob_of(ukernel, user);
  }
  for (const Bitcode& b : kBitcodes)
    if (b.name == absl::string_view(ukernel.getBitcode().data(), ukernel.getBitcode().size()))
      return blob_of(ukernel, {reinterpret_cast<const char*>(b.bytes), b.size});
  return error_of(ukernel, "the compiler has no such bitcode");
}

// Parses the bitcode that was hoisted to the module that is, or contains, `root`.
absl::StatusOr<std::unique_ptr<llvm::Module>> read_bitcode(ir::UkernelAttr ukernel, mlir::Operation* root,
                                                           const llvm::Module& kernel) {
  auto module = mlir::dyn_cast<mlir::ModuleOp>(root);
  if (!module) module = root->getParentOfType<mlir::ModuleOp>();
  auto all = module ? module->getAttrOfType<mlir::DictionaryAttr>(ir::kBitcodesAttr) : mlir::DictionaryAttr();
  auto blob = all ? all.getAs<Blob>(ukernel.getBitcode()) : Blob();
  const auto bytes = blob ? blob.tryGetAsArrayRef() : std::nullopt;
  if (!bytes) return error_of(ukernel, "the module has no such bitcode: no payload op has this ukernel");
  const llvm::StringRef text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  auto parsed =
      llvm::parseBitcodeFile(llvm::MemoryBufferRef(text, ukernel.getBitcode()), kernel.getContext());
  if (!parsed) return error_of(ukernel, llvm::toString(parsed.takeError()));
  if (ukernel.getBitcode().getValue().starts_with("user/")) {
    if (std::string refusal = refusal_of(**parsed, kernel.getTargetTriple()); !refusal.empty())
      return error_of(ukernel, refusal);
    (*parsed)->setTargetTriple(kernel.getTargetTriple());  // they may differ in the vendor
  }
  return std::move(*parsed);
}

// Sets the attributes that #lathe.ukernel lists on a linked function.
absl::Status set_attributes(ir::UkernelAttr ukernel, llvm::Function& f) {
  forget_processor(f);
  llvm::SmallVector<llvm::StringRef> names;
  ukernel.getAttributes().getValue().split(names, ' ', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef name : names) {
    const llvm::Attribute::AttrKind kind = llvm::Attribute::getAttrKindFromName(name);
    if (kind == llvm::Attribute::None || !llvm::Attribute::isEnumAttrKind(kind) ||
        !llvm::Attribute::canUseAsFnAttr(kind))
      return error_of(ukernel, absl::StrCat("LLVM has no function attribute '", name.str(), "'"));
    f.addFnAttr(kind);
  }
  return absl::OkStatus();
}

absl::Status link_ukernel(ir::UkernelAttr ukernel, mlir::Operation* root, llvm::Module* kernel) {
  LATHE_ASSIGN_OR_RETURN(std::unique_ptr<llvm::Module> bitcode, read_bitcode(ukernel, root, *kernel));
  if (bitcode->getTargetTriple() != kernel->getTargetTriple())
    return error_of(ukernel, absl::StrCat("compiled for ", bitcode->getTargetTriple().str(), ", not for ",
                                          kernel->getTargetTriple().str()));
  if (bitcode->getDataLayout() != kernel->getDataLayout())
    return error_of(ukernel, absl::StrCat("has the data layout ", bitcode->getDataLayoutStr(), ", not ",
                                          kernel->getDataLayoutStr()));
  const llvm::Function* called = kernel->getFunction(ukernel.getFunction());
  const llvm::Function* defined = bitcode->getFunction(ukernel.getFunction());
  if (!defined || defined->isDeclaration())
    return error_of(ukernel, "the bitcode does not define the function");
  if (called->getFunctionType() != defined->getFunctionType())
    return error_of(ukernel, "the function does not have the type with which the kernel calls it");
  std::set<const llvm::GlobalValue*> own;
  for (const llvm::GlobalValue& g : kernel->global_values())
    if (!g.isDeclaration()) own.insert(&g);
  if (llvm::Linker::linkModules(*kernel, std::move(bitcode), llvm::Linker::LinkOnlyNeeded))
    return error_of(ukernel, "cannot be linked");
  for (llvm::GlobalValue& g : kernel->global_values()) {
    if (g.isDeclaration() || own.count(&g)) continue;
    g.setLinkage(llvm::GlobalValue::InternalLinkage);
    g.setVisibility(llvm::GlobalValue::DefaultVisibility);
    if (auto* f = llvm::dyn_cast<llvm::Function>(&g)) LATHE_RETURN_IF_ERROR(set_attributes(ukernel, *f));
  }
  return absl::OkStatus();
}

}  // namespace

namespace emit {
using namespace mlir;

Value call_ukernel(Emit& e, ir::UkernelAttr ukernel, Type result, ValueRange operands) {
  Values arguments;
  for (Value v : operands)
    arguments.push_back(v.getType().isIndex() ? arith::IndexCastOp::create(e.b, e.loc, e.b.getI64Type(), v)
                                              : v);
  auto function =
      dyn_cast_or_null<LLVM::LLVMFuncOp>(SymbolTable::lookupSymbolIn(e.symbols, ukernel.getFunction()));
  if (!function) {
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointToStart(&e.symbols->getRegion(0).front());
    llvm::SmallVector<Type> types(ValueRange(arguments).getTypes());
    function = LLVM::LLVMFuncOp::create(e.b, e.loc, ukernel.getFunction(),
                                        LLVM::LLVMFunctionType::get(result, types));
    function->setAttr(ir::kUkernelAttr, ukernel);
  }
  auto call = LLVM::CallOp::create(e.b, e.loc, function, arguments);
  return call->getNumResults() ? call.getResult() : Value();
}

}  // namespace emit

absl::Status attach_bitcode(mlir::ModuleOp module, absl::string_view user) {
  absl::Status status;
  module.walk([&](mlir::Operation* op) {
    auto ukernel = op->getAttrOfType<ir::UkernelAttr>(ir::kUkernelAttr);
    if (!ukernel || !status.ok()) return;
    const absl::StatusOr<Blob> blob = find_bitcode(ukernel, user);
    if (blob.ok()) op->setAttr(ir::kBitcodeAttr, *blob);
    status = blob.status();
  });
  return status;
}

void hoist_bitcode(mlir::ModuleOp module) {
  mlir::NamedAttrList all;
  module.walk([&](mlir::Operation* op) {
    if (mlir::Attribute blob = op->removeAttr(ir::kBitcodeAttr))
      all.set(op->getAttrOfType<ir::UkernelAttr>(ir::kUkernelAttr).getBitcode(), blob);
  });
  if (!all.empty()) module->setAttr(ir::kBitcodesAttr, all.getDictionary(module.getContext()));
}

absl::Status link_ukernels(mlir::Operation* root, llvm::Module* kernel) {
  absl::Status status;
  root->walk([&](mlir::LLVM::LLVMFuncOp function) {
    if (auto ukernel = function->getAttrOfType<ir::UkernelAttr>(ir::kUkernelAttr); ukernel && status.ok())
      status = link_ukernel(ukernel, root, kernel);
  });
  return status;
}

}  // namespace lathe
