// Changes LLVM IR to work around two bugs of NVIDIA's assembler and linkers.
#pragma once

namespace llvm {
class Module;
}

namespace lathe {

// Call before optimization. A store with less than its value's alignment becomes several stores of bytes or
// halves. For a floating-point register ptxas 13.0 converts the value instead of taking its bits: st.b8 of
// 170.0f stores 170, not 0x00. So this function passes such values through an integer move.
void store_floats_as_integers(llvm::Module& module);

// Call after optimization, which would shrink the block. The driver's linker and nvJitLink place dynamic
// shared memory directly after static shared memory and ignore its alignment. So this function gathers the
// static variables of kernels with dynamic memory into one block whose size is a multiple of that alignment.
void gather_static_shared_memory(llvm::Module& module);

}  // namespace lathe
