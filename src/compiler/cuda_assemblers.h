// Works around two faults of NVIDIA's assembler and linkers by changing the LLVM IR.
#pragma once

namespace llvm {
class Module;
}

namespace lathe {

// Call before optimization. ptxas 13.0 converts a floating-point register to an integer when a store takes
// its low byte or half: st.b8 of 170.0f stores 170, not 0x00. Stores below their value's alignment become
// such stores, so this passes their values through a move that the assembler treats as integer.
void store_floats_as_integers(llvm::Module& module);

// Call after optimization, which would shrink the block. The driver's linker and nvJitLink place dynamic
// shared memory right behind static shared memory and ignore its alignment. This gathers the static variables
// of kernels with dynamic memory into one block whose size is a multiple of that alignment.
void gather_static_shared_memory(llvm::Module& module);

}  // namespace lathe
