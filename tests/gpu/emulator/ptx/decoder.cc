#include "tests/gpu/emulator/ptx/decoder.h"

#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/gpu/emulator/ptx/numbers.h"

namespace lathe::ptx {

uint32_t KernelBuilder::constant(uint64_t value) {
  auto [it, added] = constants.try_emplace(value, 0);
  if (added) {
    it->second = new_register();
    kernel->registers[it->second] = value;
  }
  return it->second;
}

Decoder::Decoder(KernelBuilder& builder, absl::string_view opcode, std::vector<Operand> operands)
    : builder_(builder), opcode_(opcode), operands_(std::move(operands)), used_(operands_.size(), false) {
  modifiers_ = absl::StrSplit(opcode, '.');
  name_ = modifiers_.front();
  modifiers_.erase(modifiers_.begin());
  out_.list = static_cast<uint32_t>(builder.kernel->lists.size());
}

void Decoder::fail(absl::string_view why) {
  if (error_.empty()) error_ = absl::StrCat(opcode_, ": ", why);
}

// True if the opcode's result type is a float and the instruction is not a move.
bool Decoder::computes_float() const {
  constexpr absl::string_view kMoves[] = {"mov", "ld", "ldu", "st", "atom", "red", "shfl", "setp", "selp"};
  if (absl::c_linear_search(kMoves, name_)) return false;
  for (const absl::string_view part : absl::StrSplit(opcode_, '.')) {
    if (part == "f16" || part == "bf16" || part == "f32" || part == "f64") return true;
    if (parse_type(part).has_value()) return false;
  }
  return false;
}

void Decoder::expect_no_part_of_float(size_t i, Type stored) {
  const Operand& value = operand(i);
  if (value.kind != Operand::reg || type_size(stored) >= type_size(value.symbol.type)) return;
  if (builder_.floats.contains(value.symbol.slot))
    fail(absl::StrCat(
        "'", value.text,
        "' holds a floating-point number: ptxas would convert it to an integer before storing a part of it"));
}

absl::Status Decoder::finish() {
  if (error_.empty() && out_.run == nullptr) fail("this form is not supported");
  if (error_.empty() && !modifiers_.empty())
    fail(absl::StrCat("modifier .", modifiers_.front(), " is not supported"));
  for (size_t i = 0; i < used_.size() && error_.empty(); ++i) {
    if (!used_[i]) fail(absl::StrCat("operand ", i + 1, " is not expected by this form"));
  }
  if (computes_float()) builder_.floats.insert(writes_.begin(), writes_.end());
  const size_t appended = builder_.kernel->lists.size() - out_.list;
  if (appended > UINT16_MAX) fail("too many operands");
  out_.count = static_cast<uint16_t>(appended);
  Kernel& kernel = *builder_.kernel;
  kernel.usage.push_back({static_cast<uint32_t>(kernel.usage_slots.size()),
                          static_cast<uint16_t>(reads_.size()), static_cast<uint16_t>(writes_.size())});
  kernel.usage_slots.insert(kernel.usage_slots.end(), reads_.begin(), reads_.end());
  kernel.usage_slots.insert(kernel.usage_slots.end(), writes_.begin(), writes_.end());
  return error_.empty() ? absl::OkStatus() : absl::InvalidArgumentError(error_);
}

bool Decoder::take(absl::string_view modifier) {
  for (size_t i = 0; i < modifiers_.size(); ++i) {
    if (modifiers_[i] == modifier) {
      modifiers_.erase(modifiers_.begin() + i);
      return true;
    }
  }
  return false;
}

int Decoder::take_one_of(std::initializer_list<absl::string_view> modifiers) {
  int position = 0;
  for (absl::string_view modifier : modifiers) {
    if (take(modifier)) return position;
    ++position;
  }
  return -1;
}

std::optional<Type> Decoder::take_optional_type() {
  for (size_t i = 0; i < modifiers_.size(); ++i) {
    if (const auto type = parse_type(modifiers_[i])) {
      modifiers_.erase(modifiers_.begin() + i);
      return type;
    }
  }
  return std::nullopt;
}

Type Decoder::take_type() {
  if (const auto type = take_optional_type()) return *type;
  fail("a type is missing");
  return Type::b32;
}

bool Decoder::has_modifier() const { return !modifiers_.empty(); }
void Decoder::take_all() { modifiers_.clear(); }

absl::string_view Decoder::take_prefix(absl::string_view prefix) {
  for (size_t i = 0; i < modifiers_.size(); ++i) {
    if (!absl::StartsWith(modifiers_[i], prefix)) continue;
    modifiers_.erase(modifiers_.begin() + i);
    const absl::string_view name = opcode_;
    return name.substr(name.find(absl::StrCat(".", prefix)) + 1);
  }
  return absl::string_view();
}

const Operand& Decoder::operand(size_t i) {
  static const Operand kMissing;
  if (i >= operands_.size()) {
    fail(absl::StrCat("operand ", i + 1, " is missing"));
    return kMissing;
  }
  used_[i] = true;
  return operands_[i];
}

void Decoder::expect_operands(size_t low, size_t high) {
  if (operands_.size() < low || operands_.size() > high)
    fail(absl::StrCat("has ", operands_.size(), " operands"));
}

uint32_t Decoder::source(const Operand& operand, Type type) {
  switch (operand.kind) {
    case Operand::reg: reads_.push_back(operand.symbol.slot); return operand.symbol.slot;
    case Operand::integer: {
      if (operand.named && operand.symbol.kind == Symbol::dynamic_shared) {
        // The value depends on the size of all static variables. It gets its own slot, which finish_kernel() updates.
        const uint32_t slot = builder_.new_register();
        builder_.kernel->registers[slot] = static_cast<uint64_t>(operand.integer_value);
        builder_.dynamic_constants.push_back(slot);
        return slot;
      }
      if (type == Type::f32) return builder_.constant(to_bits(static_cast<float>(operand.integer_value)));
      if (type == Type::f64) return builder_.constant(to_bits(static_cast<double>(operand.integer_value)));
      return builder_.constant(static_cast<uint64_t>(operand.integer_value));
    }
    case Operand::floating:
      if (operand.float_bits == 32 && std::isnan(operand.float_value)) {
        return builder_.constant(static_cast<uint64_t>(operand.integer_value));  // keeps the NaN payload
      }
      if (operand.float_bits == 32 || type == Type::f32 ||
          (operand.float_bits == 0 && type_size(type) == 4)) {
        return builder_.constant(to_bits(static_cast<float>(operand.float_value)));
      }
      if (type == Type::f16) return builder_.constant(narrow(operand.float_value, kF16));
      if (type == Type::bf16) return builder_.constant(narrow(operand.float_value, kBf16));
      return builder_.constant(to_bits(operand.float_value));
    default: fail(absl::StrCat("'", operand.text, "' cannot be a source operand")); return 0;
  }
}

uint32_t Decoder::destination(const Operand& operand) {
  if (operand.kind == Operand::sink) return builder_.new_register();
  if (operand.kind != Operand::reg) {
    fail(absl::StrCat("'", operand.text, "' is not a register"));
    return 0;
  }
  writes_.push_back(operand.symbol.slot);
  return operand.symbol.slot;
}

uint32_t Decoder::pair_destination(size_t i) {
  const Operand& both = operand(i);
  return both.pair.empty() || both.pair == "_" ? builder_.new_register() : both.pair_symbol.slot;
}

Address Decoder::address(size_t i) {
  const Operand& place = operand(i);
  if (place.kind != Operand::address) {
    fail(absl::StrCat("'", place.text, "' is not an address"));
    return {};
  }
  return {source(place.elements.front(), Type::b64), place.integer_value};
}

void Decoder::append_address(size_t i) {
  const Address place = address(i);
  append(place.base);
  append(builder_.constant(static_cast<uint64_t>(place.offset)));
}

int64_t Decoder::immediate(size_t i) {
  const Operand& value = operand(i);
  if (value.kind != Operand::integer || value.named)
    fail(absl::StrCat("'", value.text, "' must be a constant"));
  return value.integer_value;
}

uint32_t Decoder::predicate(size_t i) {
  const Operand& value = operand(i);
  if (value.kind == Operand::integer) return builder_.constant(value.integer_value != 0 ? 1 : 0) * 2;
  if (value.kind != Operand::reg || value.symbol.type != Type::pred)
    fail(absl::StrCat("'", value.text, "' is not a predicate"));
  return value.symbol.slot * 2 + (value.negated ? 1 : 0);
}

void Decoder::append_sources(size_t i, Type type) {
  const Operand& value = operand(i);
  if (value.kind != Operand::vector) return append(source(value, type));
  for (const Operand& element : value.elements) append(source(element, type));
}

void Decoder::append_destinations(size_t i) {
  const Operand& value = operand(i);
  if (value.kind != Operand::vector) return append(destination(value));
  for (const Operand& element : value.elements) append(destination(element));
}

void Decoder::unary(Handler handler, Type type) {
  run(handler);
  out_.d = destination(0);
  out_.a = source(1, type);
}
void Decoder::binary(Handler handler, Type type) {
  unary(handler, type);
  out_.b = source(2, type);
}
void Decoder::ternary(Handler handler, Type type) {
  binary(handler, type);
  out_.c = source(3, type);
}

}  // namespace lathe::ptx
