#include "compiler/user_ukernel.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "compiler/codegen.h"
#include "compiler/mlir.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"

namespace lathe {
namespace {

constexpr unsigned kGlobalSpace = 1, kSharedSpace = 3;  // the address spaces of NVIDIA's and AMD's GPUs

// The function type that the op's kernels call (kernels/argmax/emit_ukernel.h,
// kernels/matmul/ukernel/panel_tile.h).
llvm::FunctionType* type_called(const UserUkernel& u, llvm::LLVMContext& context) {
  llvm::Type *pointer = llvm::PointerType::get(context, 0), *i64 = llvm::Type::getInt64Ty(context);
  llvm::Type* i32 = llvm::Type::getInt32Ty(context);
  if (!u.group.empty()) {
    llvm::SmallVector<llvm::Type*> types = {llvm::PointerType::get(context, kGlobalSpace), i32, i32};
    if (u.group == "block") types.append({i32, llvm::PointerType::get(context, kSharedSpace)});
    return llvm::FunctionType::get(i64, types, false);
  }
  if (u.op == Op::kArgmax) return llvm::FunctionType::get(i32, {pointer, i64}, false);
  return llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                 {pointer, i64, pointer, i64, pointer, pointer, i64}, false);
}

std::string print(const llvm::Type* type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  type->print(stream);
  return text;
}

// Checks that the code needs only the features that the description lists, or those of its GPU.
absl::Status check_features(llvm::Module& module, const Target& target) {
  const auto error = [&](absl::string_view what) {
    const std::string has = target.backend == Backend::kCpu
                                ? absl::StrCat("with the features '", target.features, "'")
                                : absl::StrCat("on ", target.arch);
    return absl::InvalidArgumentError(absl::StrCat(has, ": ", what));
  };
  for (llvm::Function& f : module) forget_processor(f);
  try {
    const absl::Status status = check_code(module, target);
    return status.ok() ? status : error(status.message());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    return error(e.what());
  }
}

absl::Status check_bitcode(const UserUkernel& u, absl::string_view bytes) {
  const auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("bitcode of ", u.name, ": ", what));
  };
  llvm::LLVMContext context;
  auto module = llvm::parseBitcodeFile(
      llvm::MemoryBufferRef(llvm::StringRef(bytes.data(), bytes.size()), u.name), context);
  if (!module) return error(llvm::toString(module.takeError()));
  std::string complaint;
  llvm::raw_string_ostream stream(complaint);
  if (llvm::verifyModule(**module, &stream)) return error(complaint.substr(0, 500));
  const llvm::Triple triple(triple_of(u.target));
  if (std::string refusal = refusal_of(**module, triple); !refusal.empty()) return error(refusal);
  const llvm::Function* f = (*module)->getFunction(u.function);
  if (!f || f->isDeclaration()) return error(absl::StrCat("does not define the function '", u.function, "'"));
  if (f->hasLocalLinkage()) return error(absl::StrCat("does not export the function '", u.function, "'"));
  const llvm::FunctionType* wanted = type_called(u, context);
  if (f->getFunctionType() != wanted)
    return error(absl::StrCat("'", u.function, "' has the type ", print(f->getFunctionType()), ", but ",
                              name_of(u.op), " calls ", print(wanted)));
  llvm::SmallVector<llvm::StringRef> names;
  llvm::StringRef(u.attributes).split(names, ' ', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef name : names) {
    const llvm::Attribute::AttrKind kind = llvm::Attribute::getAttrKindFromName(name);
    if (kind == llvm::Attribute::None || !llvm::Attribute::isEnumAttrKind(kind) ||
        !llvm::Attribute::canUseAsFnAttr(kind))
      return error(absl::StrCat("LLVM has no function attribute '", name.str(), "'"));
  }
  const absl::Status code = check_features(**module, u.target);
  return code.ok() ? code : error(code.message());
}

}  // namespace

void forget_processor(llvm::Function& f) {
  for (const char* compiled_for : {"target-cpu", "target-features", "tune-cpu", "min-legal-vector-width"})
    f.removeFnAttr(compiled_for);
}

std::string refusal_of(const llvm::Module& bitcode, const llvm::Triple& kernel) {
  // Ignore the vendor, in which the clang of a distribution may differ.
  const llvm::Triple& triple = bitcode.getTargetTriple();
  if (triple.getArch() != kernel.getArch() || triple.getSubArch() != kernel.getSubArch() ||
      triple.getOS() != kernel.getOS() || triple.getEnvironment() != kernel.getEnvironment())
    return absl::StrCat("compiled for ", triple.str().empty() ? "no target" : triple.str(), ", not for ",
                        kernel.str());
  if (bitcode.getDataLayoutStr() != kernel.computeDataLayout())
    return absl::StrCat("has the data layout ", bitcode.getDataLayoutStr(), ", not ",
                        kernel.computeDataLayout());
  if (!bitcode.getModuleInlineAsm().empty()) return "has module-level assembly";
  if (!bitcode.alias_empty() || !bitcode.ifunc_empty()) return "has aliases";
  for (const llvm::GlobalVariable& g : bitcode.globals()) {
    if (g.isDeclaration())
      return absl::StrCat("needs '", g.getName().str(), "', but kernels have no library");
    if (!g.isConstant() || g.isThreadLocal() || g.hasAppendingLinkage() || g.hasSection())
      return absl::StrCat("'", g.getName().str(), "' is not constant, but kernels have no static data");
  }
  for (const llvm::Function& f : bitcode) {
    if (f.isDeclaration() && !f.isIntrinsic())
      return absl::StrCat("needs '", f.getName().str(), "', but kernels have no library");
    for (const llvm::Instruction& i : llvm::instructions(f))
      if (auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
          call && (call->isInlineAsm() || call->isIndirectCall()))
        return absl::StrCat("'", f.getName().str(), "' contains inline assembly or an indirect call");
  }
  return "";
}

absl::StatusOr<Json> check_user_ukernel(absl::string_view yaml, absl::string_view bitcode) {
  LATHE_ASSIGN_OR_RETURN(UserUkernel u, parse_user_ukernel(yaml));
  u.digest = bitcode_digest(bitcode);
  LATHE_RETURN_IF_ERROR(check_bitcode(u, bitcode));
  return to_json(u);
}

}  // namespace lathe
