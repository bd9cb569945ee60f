#include "compiler/dialect.h"

#include "lathe_dialect.cc.inc"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

#define GET_ATTRDEF_CLASSES
#include "lathe_attributes.cc.inc"

namespace lathe::ir {

void LatheDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "lathe_attributes.cc.inc"
      >();
}

mlir::LogicalResult KernelConfigAttr::verify(llvm::function_ref<mlir::InFlightDiagnostic()> error,
                                             mlir::StringAttr kernel, int64_t tile_m, int64_t tile_n,
                                             int64_t tile_k, int64_t register_m, int64_t register_n,
                                             int64_t unroll_k, int64_t lanes, int64_t threads, int64_t stages,
                                             int64_t split, int64_t cluster_m, int64_t cluster_n,
                                             int64_t cluster_k, int64_t swap, int64_t persistent,
                                             int64_t raster, int64_t pace) {
  if (kernel.getValue().empty()) return error() << "kernel_config: kernel is empty";
  if (tile_m < 0 || tile_n < 0 || tile_k < 0 || register_m < 0 || register_n < 0)
    return error() << "kernel_config: tile and register sizes must be at least 0";
  if (unroll_k < 1 || lanes < 1 || threads < 1 || stages < 1)
    return error() << "kernel_config: unroll_k, lanes, threads and stages must be at least 1";
  if (split < 0 || split > 3) return error() << "kernel_config: split must be 0, 1, 2 or 3";
  if (cluster_m < 1 || cluster_n < 1 || cluster_k < 1)
    return error() << "kernel_config: cluster_m, cluster_n and cluster_k must be at least 1";
  if (swap < 0 || swap > 1 || persistent < 0 || raster < 0 || pace < 0)
    return error() << "kernel_config: swap must be 0 or 1; persistent, raster and pace must be at least 0";
  return mlir::success();
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
