#include "compiler/dialect.h"

#include "lathe_dialect.cc.inc"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

#define GET_ATTRDEF_CLASSES
#include "lathe_attributes.cc.inc"

namespace lathe {
llvm::hash_code hash_value(const KernelConfig& c) {
  llvm::hash_code hash = llvm::hash_value(static_cast<int32_t>(c.kernel));
  for (const ConfigField& f : kConfigFields) hash = llvm::hash_combine(hash, c.*f.member);
  return hash;
}
}  // namespace lathe

namespace lathe::ir {

void LatheDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "lathe_attributes.cc.inc"
      >();
}

mlir::LogicalResult KernelConfigAttr::verify(llvm::function_ref<mlir::InFlightDiagnostic()> error,
                                             KernelConfig c) {
  if (c.kernel == KernelKind::kNone) return error() << "kernel_config: no kernel named";
  for (const ConfigField& f : kConfigFields)
    if (c.*f.member < f.least || c.*f.member > f.most)
      return error() << "kernel_config: " << f.name << " is " << c.*f.member << ", not " << f.least << " to "
                     << f.most;
  return mlir::success();
}

// Fields may stand in any order; one that is left out has its initial value.
mlir::Attribute KernelConfigAttr::parse(mlir::AsmParser& parser, mlir::Type) {
  KernelConfig config;
  const auto read_field = [&]() -> mlir::ParseResult {
    llvm::StringRef name;
    std::string kernel;
    const llvm::SMLoc at = parser.getCurrentLocation();
    if (parser.parseKeyword(&name) || parser.parseEqual()) return mlir::failure();
    if (name == "kernel") {
      if (parser.parseString(&kernel)) return mlir::failure();
      if (!lathe::parse(kernel, &config.kernel))
        return parser.emitError(at, "kernel_config: no kernel is named \"") << kernel << "\"";
      return mlir::success();
    }
    for (const ConfigField& f : kConfigFields)
      if (name == f.name) return parser.parseInteger(config.*f.member);
    return parser.emitError(at, "kernel_config has no field ") << name;
  };
  const llvm::SMLoc at = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(mlir::AsmParser::Delimiter::LessGreater, read_field)) return {};
  return parser.getChecked<KernelConfigAttr>(at, parser.getContext(), config);
}

void KernelConfigAttr::print(mlir::AsmPrinter& printer) const {
  printer << "<kernel = \"" << name_of(kernel()).data() << "\"";
  for (const ConfigField& f : kConfigFields) printer << ", " << f.name << " = " << getConfig().*f.member;
  printer << ">";
}

mlir::LogicalResult UkernelAttr::verify(llvm::function_ref<mlir::InFlightDiagnostic()> error,
                                        mlir::StringAttr function, mlir::StringAttr bitcode,
                                        mlir::StringAttr) {
  if (function.getValue().empty()) return error() << "ukernel: function is empty";
  if (bitcode.getValue().empty()) return error() << "ukernel: bitcode is empty";
  return mlir::success();
}

mlir::LogicalResult ExternalAttr::verify(llvm::function_ref<mlir::InFlightDiagnostic()> error,
                                         mlir::StringAttr provider, mlir::StringAttr routine) {
  if (provider.getValue().empty()) return error() << "external: library is empty";
  if (routine.getValue().empty()) return error() << "external: routine is empty";
  return mlir::success();
}

}  // namespace lathe::ir
