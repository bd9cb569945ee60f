// What NVIDIA's assembler and linkers do to correct PTX, avoided in the IR that the PTX is made from.
#pragma once

namespace llvm {
class Module;
}

namespace lathe {

// Before optimization. ptxas 13.0 converts a floating-point register to an integer where a store takes its
// low byte or half (st.b8 of a sum in f32 stores 170 for 170.0, not 0x00). A store below its value's
// alignment becomes such stores, so its value first passes through a move that the assembler takes for an
// integer's.
void store_floats_as_integers(llvm::Module& module);

// After optimization, which would shrink the block. The driver's linker and nvJitLink lay out the dynamic
// shared memory right behind the static one, whatever its alignment. Static memory beside it therefore
// becomes one block whose size keeps that alignment.
void gather_static_shared_memory(llvm::Module& module);

}  // namespace lathe
