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
  let summary = "How the op is built: core/plan.h's CompileConfig, field by field";
  let parameters = (ins
    "::mlir::StringAttr":$kernel,
    "int64_t":$tile_m, "int64_t":$tile_n, "int64_t":$tile_k,
    "int64_t":$register_m, "int64_t":$register_n, "int64_t":$unroll_k,
    "int64_t":$lanes, "int64_t":$threads, "int64_t":$stages, "int64_t":$split,
    "int64_t":$cluster_m, "int64_t":$cluster_n, "int64_t":$cluster_k, "int64_t":$swap, "int64_t":$persistent,
    "int64_t":$raster, "int64_t":$pace);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
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
