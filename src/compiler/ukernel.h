// ukernels in the IR: an emitter calls the function that the payload op's #lathe.ukernel names, and code
// generation links the bitcode it names into the kernel. Neither decides anything.
#pragma once

#include "absl/status/status.h"
#include "compiler/dialect.h"
#include "compiler/emit.h"

namespace llvm {
class Module;
}

namespace lathe {
namespace ir {
inline constexpr char kBitcodeAttr[] = "lathe.bitcode";  // of a module: the bytes of the user's ukernel it calls
}
namespace emit {

// Calls the ukernel's function; null where it returns nothing. Operands of type index go as i64.
Value call_ukernel(Emit& e, ir::UkernelAttr ukernel, Type result, ValueRange operands);

}  // namespace emit

// Links what `root`'s ukernels need into its translation, as functions of the kernel's own with the
// attributes that #lathe.ukernel lists. An error names the function and the bitcode.
absl::Status link_ukernels(mlir::Operation* root, llvm::Module* kernel);

}  // namespace lathe
