#include "llvm/Passes/PassBuilder.h"
#include "llvm/Plugins/PassPlugin.h"

// lld's driver calls the initialiser of every target that LLVM was configured with. Empty initialisers here
// keep the back ends that Lathe does not use out of the link.
#define LATHE_ABSENT_TARGET(name)                \
  void LLVMInitialize##name##TargetInfo(void) {} \
  void LLVMInitialize##name##Target(void) {}     \
  void LLVMInitialize##name##TargetMC(void) {}   \
  void LLVMInitialize##name##AsmPrinter(void) {} \
  void LLVMInitialize##name##AsmParser(void) {}

extern "C" {
LATHE_ABSENT_TARGET(ARM)
LATHE_ABSENT_TARGET(AVR)
LATHE_ABSENT_TARGET(BPF)
LATHE_ABSENT_TARGET(Hexagon)
LATHE_ABSENT_TARGET(Lanai)
LATHE_ABSENT_TARGET(LoongArch)
LATHE_ABSENT_TARGET(Mips)
LATHE_ABSENT_TARGET(MSP430)
LATHE_ABSENT_TARGET(PowerPC)
LATHE_ABSENT_TARGET(RISCV)
LATHE_ABSENT_TARGET(Sparc)
LATHE_ABSENT_TARGET(SystemZ)
LATHE_ABSENT_TARGET(VE)
LATHE_ABSENT_TARGET(WebAssembly)
LATHE_ABSENT_TARGET(XCore)
LATHE_ABSENT_TARGET(M68k)
LATHE_ABSENT_TARGET(Xtensa)
}

// Debian's LLVM registers Polly as a built-in extension of lld's LTO. Lathe does not use LTO.
llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "absent", "", [](llvm::PassBuilder&) {}};
}
