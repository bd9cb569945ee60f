#include "compiler/dialect.h"

#include "lathe_dialect.cc.inc"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

#define GET_ATTRDEF_CLASSES
#include "lathe_attributes.cc.inc"

namespace lathe {
llvm::hash_code hash_value(const KernelConfig& c) {
  llvm::hash_code hash =
      llvm::hash_combine(static_cast<int32_t>(c.family()), static_cast<int32_t>(c.kernel()));
  for (const FieldValue& f : c.fields()) hash = llvm::hash_combine(hash, f.value);
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
  if (c.kernel() == KernelKind::kNone) return error() << "kernel_config: no kernel named";
  if (const std::string defect = defect_of(c); !defect.empty()) return error() << "kernel_config: " << defect;
  return mlir::success();
}

// The family and the kernel come first. Fields may stand in any order; one that is left out has its initial value.
mlir::Attribute KernelConfigAttr::parse(mlir::AsmParser& parser, mlir::Type) {
  const llvm::SMLoc at = parser.getCurrentLocation();
  std::string family_name, kernel_name;
  if (parser.parseLess() || parser.parseKeyword("family") || parser.parseEqual() ||
      parser.parseString(&family_name) || parser.parseComma() || parser.parseKeyword("kernel") ||
      parser.parseEqual() || parser.parseString(&kernel_name))
    return {};
  ConfigFamily family;
  KernelKind kernel;
  if (!lathe::parse(kernel_name, &kernel))
    return parser.emitError(at, "kernel_config: no kernel is named \"") << kernel_name << "\"", nullptr;
  if (!lathe::parse(family_name, &family) || !row_of(family).covers(kernel))
    return parser.emitError(at, "kernel_config: kernel \"")
               << kernel_name << "\" has no configs of family \"" << family_name << "\"",
           nullptr;
  KernelConfig config(family, kernel);
  while (parser.parseOptionalComma().succeeded()) {
    const llvm::SMLoc field = parser.getCurrentLocation();
    llvm::StringRef name;
    int64_t value;
    if (parser.parseKeyword(&name) || parser.parseEqual() || parser.parseInteger(value)) return {};
    if (!config.set({name.data(), name.size()}, value))
      return parser.emitError(field, "kernel_config: family \"") << family_name << "\" has no field " << name,
             nullptr;
  }
  if (parser.parseGreater()) return {};
  return parser.getChecked<KernelConfigAttr>(at, parser.getContext(), config);
}

void KernelConfigAttr::print(mlir::AsmPrinter& printer) const {
  printer << "<family = \"" << name_of(getConfig().family()).data() << "\", kernel = \""
          << name_of(kernel()).data() << "\"";
  for (const FieldValue& f : getConfig().fields()) printer << ", " << f.field->name << " = " << f.value;
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
