#include "compiler/user_ukernel.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "compiler/mlir.h"
#include "core/user_ukernel.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLTraits.h"

namespace lathe {
namespace {

// As it is written.
struct Description {
  std::string name, op, dtype, function, attributes, arch;
  std::vector<std::string> features;
  SizeRange m, n, k;
  int64_t register_m = 0, register_n = 0, shared_bytes = 0;
  double fixed_seconds = 0, seconds_per_flop = 0, seconds_per_byte = 0;
};

}  // namespace
}  // namespace lathe

namespace llvm::yaml {
template <>
struct MappingTraits<lathe::SizeRange> {
  static void mapping(IO& io, lathe::SizeRange& r) {
    io.mapOptional("least", r.least);
    io.mapOptional("most", r.most);
    io.mapOptional("multiple", r.multiple);
  }
  static std::string validate(IO&, lathe::SizeRange& r) {
    if (r.least < 0 || r.most < r.least) return "least and most are no range";
    return r.multiple < 1 ? "multiple is less than 1" : "";
  }
};
// The parts of a description that are mappings of their own.
struct TargetPart {
  lathe::Description& d;
};
struct ShapePart {
  lathe::Description& d;
};
struct TilingPart {
  lathe::Description& d;
};
struct CostPart {
  lathe::Description& d;
};
template <>
struct MappingTraits<TargetPart> {
  static void mapping(IO& io, TargetPart& p) {
    io.mapRequired("arch", p.d.arch);
    io.mapOptional("features", p.d.features);
  }
};
template <>
struct MappingTraits<ShapePart> {
  static void mapping(IO& io, ShapePart& p) {
    io.mapOptional("m", p.d.m);
    io.mapOptional("n", p.d.n);
    io.mapOptional("k", p.d.k);
  }
};
template <>
struct MappingTraits<TilingPart> {
  static void mapping(IO& io, TilingPart& p) {
    io.mapOptional("register_m", p.d.register_m);
    io.mapOptional("register_n", p.d.register_n);
  }
  static std::string validate(IO&, TilingPart& p) {
    const auto fits = [](int64_t x) { return x >= 0 && x <= 4096; };
    return fits(p.d.register_m) && fits(p.d.register_n) ? "" : "a register tile is 0 to 4096 by 0 to 4096";
  }
};
template <>
struct MappingTraits<CostPart> {
  static void mapping(IO& io, CostPart& p) {
    io.mapOptional("fixed_seconds", p.d.fixed_seconds);
    io.mapOptional("seconds_per_flop", p.d.seconds_per_flop);
    io.mapOptional("seconds_per_byte", p.d.seconds_per_byte);
  }
  static std::string validate(IO&, CostPart& p) {
    double sum = 0;
    for (double x : {p.d.fixed_seconds, p.d.seconds_per_flop, p.d.seconds_per_byte}) {
      if (!(x >= 0 && x <= 1e6)) return "seconds are 0 to 1e6";
      sum += x;
    }
    return sum > 0 ? "" : "a call takes some time";
  }
};
template <>
struct MappingTraits<lathe::Description> {
  static void mapping(IO& io, lathe::Description& d) {
    TargetPart target{d};
    ShapePart shape{d};
    TilingPart tiling{d};
    CostPart cost{d};
    io.mapRequired("name", d.name);
    io.mapRequired("op", d.op);
    io.mapRequired("dtype", d.dtype);
    io.mapRequired("function", d.function);
    io.mapOptional("attributes", d.attributes);
    io.mapRequired("target", target);
    io.mapOptional("shape", shape);
    io.mapOptional("tiling", tiling);
    io.mapOptional("shared_bytes", d.shared_bytes);
    io.mapRequired("cost", cost);
  }
  static std::string validate(IO&, lathe::Description& d) {
    if (std::string refusal = lathe::name_refusal(d.name); !refusal.empty()) return refusal;
    if (d.op != "matmul" && d.op != "argmax") return "op '" + d.op + "': of matmul and argmax alone";
    if (d.dtype != "f32" && d.dtype != "f16" && d.dtype != "bf16" && (d.dtype != "i8" || d.op != "matmul"))
      return "dtype '" + d.dtype + "': f32, f16, bf16, and i8 of matmul";
    if (d.arch != "x86-64" && d.arch != "aarch64")
      return "arch '" + d.arch + "': kernels of x86-64 and aarch64 alone call users' ukernels";
    if (d.op == "matmul" && (d.register_m < 1 || d.register_n < 1))
      return "a matmul's tiling needs register_m and register_n";
    if (d.shared_bytes != 0) return "shared_bytes: workgroups of GPUs alone share memory";
    return "";
  }
};
}  // namespace llvm::yaml

namespace lathe {
namespace {

absl::StatusOr<Description> parse_description(absl::string_view yaml) {
  std::string complaint;
  const auto report = [](const llvm::SMDiagnostic& d, void* context) {
    auto* text = static_cast<std::string*>(context);
    if (text->empty()) *text = absl::StrCat("line ", d.getLineNo(), ": ", d.getMessage().str());
  };
  Description d;
  llvm::yaml::Input input(llvm::StringRef(yaml.data(), yaml.size()), nullptr, report, &complaint);
  input >> d;
  if (input.error())
    return absl::InvalidArgumentError(
        absl::StrCat("description, ", complaint.empty() ? "line 1: is empty" : complaint));
  return d;
}

absl::StatusOr<UserUkernel> ukernel_of(const Description& d, absl::string_view bitcode) {
  UserUkernel fresh;
  fresh.target = {Backend::kCpu, d.arch, ""};
  Json json = to_json(fresh);
  json["name"] = d.name, json["op"] = d.op, json["dtype"] = d.dtype;
  json["function"] = d.function, json["attributes"] = d.attributes;
  LATHE_ASSIGN_OR_RETURN(UserUkernel u, user_ukernel_from_json(json));
  const auto sign = [](std::string* out, const std::string& f) { absl::StrAppend(out, "+", f); };
  LATHE_ASSIGN_OR_RETURN(u.target.features, canonical_features(absl::StrJoin(d.features, ",", sign)));
  u.m = d.m, u.n = d.n, u.k = d.k;
  u.register_m = d.register_m, u.register_n = d.register_n, u.shared_bytes = d.shared_bytes;
  u.fixed_seconds = d.fixed_seconds;
  u.seconds_per_flop = d.seconds_per_flop, u.seconds_per_byte = d.seconds_per_byte;
  u.digest = bitcode_digest(bitcode);
  return u;
}

// What the op's kernels call: kernels/argmax/emit_ukernel.h, kernels/matmul/ukernel/panel_tile.h.
llvm::FunctionType* type_called(Op op, llvm::LLVMContext& context) {
  llvm::Type *pointer = llvm::PointerType::get(context, 0), *i64 = llvm::Type::getInt64Ty(context);
  if (op == Op::kArgmax)
    return llvm::FunctionType::get(llvm::Type::getInt32Ty(context), {pointer, i64}, false);
  return llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                 {pointer, i64, pointer, i64, pointer, pointer, i64}, false);
}

std::string print(const llvm::Type* type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  type->print(stream);
  return text;
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
  const llvm::Triple triple(u.target.arch == "aarch64" ? "aarch64-unknown-linux-gnu"
                                                       : "x86_64-unknown-linux-gnu");
  if ((*module)->getTargetTriple() != triple)
    return error(
        absl::StrCat("compiled for ", (*module)->getTargetTriple().str(), ", not for ", triple.str()));
  if ((*module)->getDataLayoutStr() != triple.computeDataLayout())
    return error(
        absl::StrCat("data layout ", (*module)->getDataLayoutStr(), ", not ", triple.computeDataLayout()));
  if (std::string refusal = refusal_of(**module); !refusal.empty()) return error(refusal);
  const llvm::Function* f = (*module)->getFunction(u.function);
  if (!f || f->isDeclaration()) return error(absl::StrCat("does not define the function '", u.function, "'"));
  if (f->hasLocalLinkage()) return error(absl::StrCat("keeps the function '", u.function, "' to itself"));
  const llvm::FunctionType* wanted = type_called(u.op, context);
  if (f->getFunctionType() != wanted)
    return error(absl::StrCat("'", u.function, "' is ", print(f->getFunctionType()), ", and ", name_of(u.op),
                              " calls ", print(wanted)));
  llvm::SmallVector<llvm::StringRef> names;
  llvm::StringRef(u.attributes).split(names, ' ', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef name : names) {
    const llvm::Attribute::AttrKind kind = llvm::Attribute::getAttrKindFromName(name);
    if (kind == llvm::Attribute::None || !llvm::Attribute::isEnumAttrKind(kind) ||
        !llvm::Attribute::canUseAsFnAttr(kind))
      return error(absl::StrCat("LLVM has no function attribute '", name.str(), "'"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string refusal_of(const llvm::Module& bitcode) {
  if (!bitcode.getModuleInlineAsm().empty()) return "has assembly of a module";
  if (!bitcode.alias_empty() || !bitcode.ifunc_empty()) return "has aliases";
  for (const llvm::GlobalVariable& g : bitcode.globals()) {
    if (g.isDeclaration())
      return absl::StrCat("needs '", g.getName().str(), "', and kernels have no library");
    if (!g.isConstant() || g.isThreadLocal() || g.hasAppendingLinkage() || g.hasSection())
      return absl::StrCat("'", g.getName().str(), "' is not constant: kernels keep nothing");
  }
  for (const llvm::Function& f : bitcode) {
    if (f.isDeclaration() && !f.isIntrinsic())
      return absl::StrCat("needs '", f.getName().str(), "', and kernels have no library");
    for (const llvm::Instruction& i : llvm::instructions(f))
      if (auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
          call && (call->isInlineAsm() || call->isIndirectCall()))
        return absl::StrCat("'", f.getName().str(), "' has assembly or calls by pointer");
  }
  return "";
}

absl::StatusOr<Json> check_user_ukernel(absl::string_view yaml, absl::string_view bitcode) {
  LATHE_ASSIGN_OR_RETURN(const Description d, parse_description(yaml));
  LATHE_ASSIGN_OR_RETURN(const UserUkernel u, ukernel_of(d, bitcode));
  LATHE_RETURN_IF_ERROR(check_bitcode(u, bitcode));
  return to_json(u);
}

}  // namespace lathe
