// ukernels in the IR: the payload op's #lathe.ukernel gets its bitcode beside it, which is hoisted to the
// module before the op is lowered; an emitter calls the function that the attribute names, and code
// generation links its bitcode into the kernel. None decides anything.
#pragma once

#include "absl/status/status.h"
#include "compiler/dialect.h"
#include "compiler/emit.h"

namespace llvm {
class Module;
}

namespace lathe {
namespace ir {
// The bytes: of an op beside its #lathe.ukernel; of the module by the names that #lathe.ukernel gives them.
inline constexpr char kBitcodeAttr[] = "lathe.bitcode", kBitcodesAttr[] = "lathe.bitcodes";
}  // namespace ir
namespace emit {

// Calls the ukernel's function; null where it returns nothing. Operands of type index go as i64.
Value call_ukernel(Emit& e, ir::UkernelAttr ukernel, Type result, ValueRange operands);

}  // namespace emit

// Gives each op with a #lathe.ukernel its bitcode: the compiler's own or `user`, which the bytes are not
// copied from. An error names the function and the bitcode.
absl::Status attach_bitcode(mlir::ModuleOp module, absl::string_view user);
// Moves what ops carry to the module: they are lowered to calls, the bytes stay.
void hoist_bitcode(mlir::ModuleOp module);

// Links what `root`'s ukernels need into its translation, as functions of the kernel's own with the
// attributes that #lathe.ukernel lists. An error names the function and the bitcode.
absl::Status link_ukernels(mlir::Operation* root, llvm::Module* kernel);

}  // namespace lathe
