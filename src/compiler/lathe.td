// The lathe dialect: the plan, written on the payload op. Passes and emitters read it and decide nothing.
#ifndef LATHE_DIALECT_TD
#define LATHE_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/DialectBase.td"

def Lathe_Dialect : Dialect {
  let name = "lathe";
  let cppNamespace = "::lathe::ir";
  let summary = "Plans of the Lathe library, as attributes of payload ops";
  let useDefaultAttributePrinterParser = 1;
}

def Lathe_KernelConfigAttr : AttrDef<Lathe_Dialect, "KernelConfig"> {
  let mnemonic = "kernel_config";
  let summary = "How the op is built: core/kernel_configs.h's KernelConfig, field by field";
  let parameters = (ins AttrParameter<"::lathe::KernelConfig", "", "const ::lathe::KernelConfig &">:$config);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    ::lathe::KernelKind kernel() const { return getConfig().kernel(); }
    // The struct of the kernel's family: as<::lathe::SimtConfig>().
    template <typename Config>
    const Config& as() const { return getConfig().as<Config>(); }
    // One accessor for each field that code for all families reads.
#define LATHE_SHARED(name, otherwise) \
    int64_t name() const { return getConfig().name(); }
    LATHE_SHARED_FIELDS(LATHE_SHARED)
#undef LATHE_SHARED
  }];
}

def Lathe_UkernelAttr : AttrDef<Lathe_Dialect, "Ukernel"> {
  let mnemonic = "ukernel";
  let summary = "Code from outside of the emitters that the op's kernel calls: core/plan.h's UkernelRef";
  let parameters = (ins
    "::mlir::StringAttr":$function, "::mlir::StringAttr":$bitcode, "::mlir::StringAttr":$attributes);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Lathe_ExternalAttr : AttrDef<Lathe_Dialect, "External"> {
  let mnemonic = "external";
  let summary = "An external library's routine that does the op: core/plan.h's ExternalRef";
  let parameters = (ins "::mlir::StringAttr":$library, "::mlir::StringAttr":$routine);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif
