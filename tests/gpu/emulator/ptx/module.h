// A decoded PTX module: kernels as arrays of plain structs, and the module's global variables.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lathe::ptx {

struct Thread;
struct Instruction;

// What happens to a thread after an instruction.
enum class Step : uint8_t {
  next,     // continues with the next instruction
  jump,     // continues at the pc that the instruction has set
  yield,    // like next, but other threads should run first
  blocked,  // waits at this instruction; whoever ends the wait sets the pc
  exited,
  fault,  // stops: the machine has recorded an error
};
using Handler = Step (*)(Thread&, const Instruction&);

inline constexpr uint32_t kNone = UINT32_MAX;

struct Instruction {
  Handler run = nullptr;
  uint32_t d = 0, a = 0, b = 0, c = 0;  // slots of the register file
  uint32_t guard = kNone;               // slot of the guard predicate * 2 + negated, or kNone
  uint32_t list = 0;                    // index of its first entry in Kernel::lists
  uint16_t count = 0;                   // number of its entries in Kernel::lists
  uint16_t flags = 0;                   // defined by the handler
  int64_t imm = 0;                      // address offset, branch target, or defined by the handler
  int32_t line = 0;
};

// The first slots of the register file are the special registers. Constants and virtual registers follow in order
// of appearance.
enum Special : uint32_t {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLaneid,
  kWarpid,
  kNwarpid,
  kSmid,
  kNsmid,
  kGridid,
  kLanemaskEq,
  kLanemaskLt,
  kLanemaskLe,
  kLanemaskGt,
  kLanemaskGe,
  kClusteridX,
  kClusteridY,
  kClusteridZ,
  kNclusteridX,
  kNclusteridY,
  kNclusteridZ,
  kClusterCtaidX,
  kClusterCtaidY,
  kClusterCtaidZ,
  kClusterNctaidX,
  kClusterNctaidY,
  kClusterNctaidZ,
  kClusterCtarank,
  kClusterNctarank,
  kIsExplicitCluster,
  kDynamicSmemSize,
  kTotalSmemSize,
  kAggrSmemSize,
  kSpecialCount,
};

struct Parameter {
  uint32_t offset = 0, size = 0, align = 0;
};

// In Kernel::usage_slots: the registers that one instruction reads, then those that it writes.
struct Usage {
  uint32_t first = 0;
  uint16_t reads = 0, writes = 0;
};

struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  uint32_t parameter_base = 0, parameter_bytes = 0;
  std::vector<Instruction> code;
  std::vector<uint32_t> lists;
  std::vector<Usage> usage;  // one per instruction
  std::vector<uint32_t> usage_slots;
  std::vector<uint64_t> registers;  // initial register file of a thread: constants, all others poisoned
  uint32_t static_shared = 0;       // end address of the static shared variables, which start at kSharedBase
  uint32_t dynamic_align = 16;      // alignment of the extern shared variables behind the static ones
  uint32_t local_bytes = 0;
  std::array<uint32_t, 3> required_block = {0, 0, 0}, max_block = {0, 0, 0}, cluster = {0, 0, 0};
  uint32_t min_blocks = 0, max_registers = 0;
  std::string target;
};

// Where parameters start in the constant bank of a target ("sm_90a"). Parameter::offset counts from there, as the
// driver reports it; ptxas 13.0 aligns the address within the bank, not this offset.
uint32_t parameter_base(const std::string& target);

// The system reserves the first KiB of a block's shared memory, as on sm_80 and later.
inline constexpr uint32_t kSharedBase = 1024;
// Windows of the generic address space. All other generic addresses are global memory.
inline constexpr int kWindowShift = 56;
inline constexpr uint64_t kSharedWindow = uint64_t{1} << kWindowShift,
                          kLocalWindow = uint64_t{2} << kWindowShift,
                          kParamWindow = uint64_t{3} << kWindowShift;
// A shared::cluster address: bits 24 and up are 0 for the own block, otherwise the block's rank + 1.
inline constexpr int kRankShift = 24;

struct Global {
  std::string name;
  uint64_t address = 0;
  uint64_t size = 0;
};

class Module {
 public:
  // `linked`: lay the module out like the driver's linker or nvJitLink, which place dynamic shared memory at the
  // next multiple of 16 bytes after the static memory and ignore its alignment. An error names the line and the
  // instruction or directive.
  static absl::StatusOr<std::unique_ptr<Module>> parse(absl::string_view text, bool linked = false);

  const Kernel* find_kernel(absl::string_view name) const;
  const Global* find_global(absl::string_view name) const;
  const std::vector<std::unique_ptr<Kernel>>& kernels() const { return kernels_; }
  const std::vector<Global>& globals() const { return globals_; }
  const std::string& target() const { return target_; }
  // The text of a source line, for messages.
  absl::string_view line(int number) const;

 private:
  friend class Parser;
  Module() = default;
  std::string text_, target_;
  bool linked_ = false;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<Global> globals_;
  std::vector<std::unique_ptr<uint8_t[]>> storage_;
};

}  // namespace lathe::ptx
