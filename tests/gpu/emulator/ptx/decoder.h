// Turns one parsed statement into one decoded instruction. Each kind of instruction has a decode function, which
// consumes its modifiers and operands and names the handler that executes it. table.h lists all of them.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tests/gpu/emulator/ptx/module.h"
#include "tests/gpu/emulator/ptx/types.h"

namespace lathe::ptx {

// What a name refers to.
struct Symbol {
  enum Kind : uint8_t {
    reg,
    shared,
    dynamic_shared,
    global,
    constant,
    local,
    param,
    label,
    targets
  } kind = reg;
  Type type = Type::b32;
  uint32_t slot = 0;   // reg
  uint64_t value = 0;  // an address in its own space; a label's pc; the index of a branch table
};

struct Operand {
  enum Kind : uint8_t { reg, integer, floating, vector, address, label, sink } kind = sink;
  absl::string_view text;
  bool negated = false;  // !p
  Symbol symbol;         // a register, or the variable whose address this integer is (named = true)
  bool named = false;
  int64_t integer_value = 0;      // integer; for an address the offset
  double float_value = 0;         // floating, as a double
  int float_bits = 0;             // 32 for a 0f literal, 64 for 0d, else 0
  std::vector<Operand> elements;  // vector; for an address the base, then the vector of tensor coordinates
  absl::string_view pair;         // d|p: the second name
  Symbol pair_symbol;
};

enum class Space : uint8_t { generic, global, shared, local, param, constant };

struct Address {
  uint32_t base = 0;  // slot
  int64_t offset = 0;
};

// A branch to a label that may be defined later; resolved when the scope ends.
struct Fixup {
  size_t instruction;  // index in Kernel::code
  absl::string_view label;
  size_t list = SIZE_MAX;  // set for a branch table: the entry in Kernel::lists to fill in
};

// The kernel under construction, shared by the parser and the decode functions.
struct KernelBuilder {
  Kernel* kernel = nullptr;
  absl::flat_hash_map<uint64_t, uint32_t> constants;
  std::vector<uint32_t> dynamic_constants;  // slots to which the start of dynamic shared memory is added
  uint32_t carry = 0;                       // slot of the carry flag, once it is used
  absl::flat_hash_set<uint32_t> floats;     // slots written by floating-point arithmetic

  uint32_t new_register() {
    kernel->registers.push_back(~uint64_t{0});
    return static_cast<uint32_t>(kernel->registers.size() - 1);
  }
  uint32_t constant(uint64_t value);
};

class Decoder {
 public:
  Decoder(KernelBuilder& builder, absl::string_view opcode, std::vector<Operand> operands);

  // Modifiers. take() consumes a modifier if it is present. finish() refuses modifiers that nobody consumed.
  const std::string& name() const { return name_; }
  bool take(absl::string_view modifier);
  // Consumes the first of these that is present and returns its position in the list, or -1.
  int take_one_of(std::initializer_list<absl::string_view> modifiers);
  // Consumes the first type. It is an error if there is none.
  Type take_type();
  // Consumes the next type, if there is one.
  std::optional<Type> take_optional_type();
  bool has_modifier() const;
  void take_all();
  // Consumes and returns the first remaining modifier with this prefix, or returns an empty string.
  absl::string_view take_prefix(absl::string_view prefix);

  // Operands.
  size_t operand_count() const { return operands_.size(); }
  const Operand& operand(size_t i);
  bool is_vector(size_t i) { return operand(i).kind == Operand::vector; }
  // The slot of a source operand: a register, or a constant converted to the type.
  uint32_t source(size_t i, Type type) { return source(operand(i), type); }
  uint32_t source(const Operand& operand, Type type);
  // The slot of a destination register. The sink '_' gets a new slot.
  uint32_t destination(size_t i) { return destination(operand(i)); }
  uint32_t destination(const Operand& operand);
  uint32_t pair_destination(size_t i);  // the second name of d|p; a new slot if there is none
  Address address(size_t i);
  int64_t immediate(size_t i);  // a constant known at decode time
  // Slot * 2 + negated, like Instruction::guard.
  uint32_t predicate(size_t i);
  // Refuses a store of a part of a register that holds a floating-point number: ptxas 13.0 would convert the
  // number to an integer first.
  void expect_no_part_of_float(size_t i, Type stored);
  // Append the slots of a vector's elements to the kernel's lists. A single operand counts as one element.
  void append_sources(size_t i, Type type);
  void append_destinations(size_t i);
  void append(uint32_t slot) { builder_.kernel->lists.push_back(slot); }
  void append_address(size_t i);  // the base's slot, then the slot of the offset; the handler adds them

  // The instruction under construction.
  Instruction& out() { return out_; }
  KernelBuilder& builder() { return builder_; }
  void run(Handler handler) { out_.run = handler; }
  // Set the handler, the destination d and the sources a, b, c, all of one type.
  void unary(Handler handler, Type type);
  void binary(Handler handler, Type type);
  void ternary(Handler handler, Type type);

  // The first error wins. finish() also refuses modifiers and operands that nobody consumed.
  void fail(absl::string_view why);
  absl::Status finish();
  void expect_operands(size_t low, size_t high);
  void expect_operands(size_t n) { expect_operands(n, n); }

  std::vector<Fixup> fixups;  // labels of this instruction

 private:
  bool computes_float() const;

  KernelBuilder& builder_;
  std::string opcode_, name_;
  std::vector<std::string> modifiers_;
  std::vector<Operand> operands_;
  std::vector<bool> used_;
  std::vector<uint32_t> reads_, writes_;
  Instruction out_;
  std::string error_;
};

using DecodeFunction = void (*)(Decoder&);
// Null if the name is unknown.
DecodeFunction find_decoder(absl::string_view name);

}  // namespace lathe::ptx
