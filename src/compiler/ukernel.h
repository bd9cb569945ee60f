// ukernels in the IR. attach_bitcode puts the bitcode beside the payload op's #lathe.ukernel; hoist_bitcode moves
// it to the module before the op is lowered. An emitter calls the function that the attribute names, and code
// generation links the bitcode into the kernel. The oracle has already chosen the ukernel.
#pragma once

#include "absl/status/status.h"
#include "compiler/dialect.h"
#include "compiler/emit.h"

namespace llvm {
class Module;
}

namespace lathe {
namespace ir {
// The bytes of the bitcode. On an op: beside its #lathe.ukernel. On the module: by the bitcode's name.
inline constexpr char kBitcodeAttr[] = "lathe.bitcode", kBitcodesAttr[] = "lathe.bitcodes";
}  // namespace ir
namespace emit {

// Calls the ukernel's function. Returns null if the function returns nothing. Passes index operands as i64.
Value call_ukernel(Emit& e, ir::UkernelAttr ukernel, Type result, ValueRange operands);

}  // namespace emit

// Attaches the bitcode to each op with a #lathe.ukernel: a built-in one, or `user`, whose bytes are not copied
// and must outlive the module. An error names the function and the bitcode.
absl::Status attach_bitcode(mlir::ModuleOp module, absl::string_view user);
// Moves the bitcode from the ops to the module, where it stays when the ops are lowered to calls.
void hoist_bitcode(mlir::ModuleOp module);

// Links the ukernels of `root` into `kernel`, its translation, as internal functions with the attributes that
// #lathe.ukernel lists. An error names the function and the bitcode.
absl::Status link_ukernels(mlir::Operation* root, llvm::Module* kernel);

}  // namespace lathe
