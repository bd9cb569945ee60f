// A PTX module, decoded: kernels as arrays of plain structs, globals in memory of the module's own.
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

// What a thread does after an instruction.
enum class Step : uint8_t {
  next,     // goes on at the next instruction
  jump,     // goes on at the pc that the instruction set
  yield,    // as next, but others should have a turn first
  blocked,  // waits at this instruction; whoever ends the wait moves the pc
  exited,
  fault,  // the machine holds the error
};
using Handler = Step (*)(Thread&, const Instruction&);

inline constexpr uint32_t kNone = UINT32_MAX;

struct Instruction {
  Handler run = nullptr;
  uint32_t d = 0, a = 0, b = 0, c = 0;  // slots of the register file
  uint32_t guard = kNone;               // slot of the guard predicate * 2 + negated, or kNone
  uint32_t list = 0;                    // first of this instruction's entries in Kernel::lists
  uint16_t count = 0;                   // how many
  uint16_t flags = 0;                   // the handler's own
  int64_t imm = 0;                      // address offset, branch target, or the handler's own
  int32_t line = 0;
};

// The register file starts with the special registers; constants and virtual registers follow in order of
// appearance.
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

// The registers that one instruction reads, then those it writes, in Kernel::usage_slots.
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
  std::vector<Usage> usage;  // one for each instruction
  std::vector<uint32_t> usage_slots;
  std::vector<uint64_t> registers;  // the register file as a thread finds it: constants, the rest poisoned
  uint32_t static_shared = 0;       // the end of the static variables, from kSharedBase on
  uint32_t dynamic_align = 16;      // of the extern variables that start behind them
  uint32_t local_bytes = 0;
  std::array<uint32_t, 3> required_block = {0, 0, 0}, max_block = {0, 0, 0}, cluster = {0, 0, 0};
  uint32_t min_blocks = 0, max_registers = 0;
  std::string target;
};

// Where parameters begin in the constant bank of a target ("sm_90a"), in which ptxas 13.0 aligns them. A
// Parameter's offset, as the driver tells it, counts from there.
uint32_t parameter_base(const std::string& target);

// The first KiB of a block's shared memory belongs to the system, as on sm_80 and later.
inline constexpr uint32_t kSharedBase = 1024;
// Windows of the generic address space; everything else is global memory.
inline constexpr int kWindowShift = 56;
inline constexpr uint64_t kSharedWindow = uint64_t{1} << kWindowShift,
                          kLocalWindow = uint64_t{2} << kWindowShift,
                          kParamWindow = uint64_t{3} << kWindowShift;
// A shared::cluster address: bits 24 and up are 0 for the own block, else one more than the block's rank.
inline constexpr int kRankShift = 24;

struct Global {
  std::string name;
  uint64_t address = 0;
  uint64_t size = 0;
};

class Module {
 public:
  // Errors name the line and the instruction or directive.
  // `linked`: laid out by the driver's linker or nvJitLink, which place dynamic shared memory at the next
  // multiple of 16 bytes after the static memory and ignore its alignment.
  static absl::StatusOr<std::unique_ptr<Module>> parse(absl::string_view text, bool linked = false);

  const Kernel* find_kernel(absl::string_view name) const;
  const Global* find_global(absl::string_view name) const;
  const std::vector<std::unique_ptr<Kernel>>& kernels() const { return kernels_; }
  const std::vector<Global>& globals() const { return globals_; }
  const std::string& target() const { return target_; }
  // The source line, for messages.
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
