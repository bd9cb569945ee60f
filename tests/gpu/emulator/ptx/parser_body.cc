// Kernel bodies: scopes, declarations, labels, statements and their operands.
#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/gpu/emulator/ptx/parser.h"

namespace lathe::ptx {

absl::Status Parser::parse_block() {
  if (absl::Status status = expect("{"); !status.ok()) return status;
  scopes_.emplace_back();
  while (!accept("}")) {
    if (peek().text.empty()) return error("'}' is missing");
    if (absl::Status status = parse_body_item(); !status.ok()) return status;
  }
  return close_scope();
}

// Resolves branches to labels of this scope; the other branches move to the enclosing scope.
absl::Status Parser::close_scope() {
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  for (const Fixup& fixup : scope.fixups) {
    const auto it = scope.symbols.find(fixup.label);
    if (it != scope.symbols.end() && it->second.kind == Symbol::label) {
      if (fixup.list != SIZE_MAX) {
        builder_.kernel->lists[fixup.list] = static_cast<uint32_t>(it->second.value);
      } else {
        builder_.kernel->code[fixup.instruction].imm = static_cast<int64_t>(it->second.value);
      }
    } else if (scopes_.size() > 2) {
      scopes_.back().fixups.push_back(fixup);
    } else {
      return error(absl::StrCat("label '", fixup.label, "' is not defined in ", builder_.kernel->name));
    }
  }
  return absl::OkStatus();
}

absl::Status Parser::parse_body_item() {
  const absl::string_view word = peek().text;
  if (word == "{") return parse_block();
  if (accept(";")) return absl::OkStatus();
  if (word == ".reg") return parse_registers();
  for (absl::string_view space : {".shared", ".local", ".const", ".global"}) {
    if (accept(space)) return parse_body_variable(space);
  }
  if (word == ".loc" || word == ".file") {
    skip_line();
    return absl::OkStatus();
  }
  if (word == ".pragma") {
    while (!accept(";") && !peek().text.empty()) next();
    return absl::OkStatus();
  }
  if (peek().word && peek(1).text == ":") {
    const absl::string_view label = next().text;
    next();
    if (peek().text == ".branchtargets") return parse_branch_targets(label);
    Symbol symbol;
    symbol.kind = Symbol::label;
    symbol.value = builder_.kernel->code.size();
    return declare(label, symbol);
  }
  return parse_statement();
}

// .reg .b32 %r<85>;  .reg .pred p, q;
absl::Status Parser::parse_registers() {
  next();
  const auto type = parse_type(peek().text.substr(std::min<size_t>(1, peek().text.size())));
  if (!type) return error("unknown register type");
  if (*type == Type::b128) return error("128-bit registers are not supported");
  next();
  do {
    const std::string name(next().text);
    uint64_t count = 0;
    const bool many = accept("<");
    if (many) {
      if (!parse_number(next().text, count)) return error("the register count is not a number");
      if (absl::Status status = expect(">"); !status.ok()) return status;
    }
    for (uint64_t i = 0; i < (many ? count : 1); ++i) {
      Symbol symbol;
      symbol.type = *type;
      symbol.slot = builder_.new_register();
      if (absl::Status status = declare(many ? absl::StrCat(name, i) : name, symbol); !status.ok())
        return status;
    }
  } while (accept(","));
  return expect(";");
}

absl::Status Parser::parse_body_variable(absl::string_view space) {
  if (space == ".const" || space == ".global") return parse_module_variable(space, false);
  auto variable = parse_variable(false);
  if (!variable.ok()) return variable.status();
  Symbol symbol;
  if (space == ".shared") {
    symbol.kind = Symbol::shared;
    symbol.value = place_shared(static_cast<uint32_t>(variable->bytes()), variable->align);
  } else {
    uint32_t& end = builder_.kernel->local_bytes;
    end = (end + variable->align - 1) / variable->align * variable->align;
    symbol.kind = Symbol::local;
    symbol.value = end;
    end += static_cast<uint32_t>(variable->bytes());
  }
  if (absl::Status status = declare(variable->name, symbol); !status.ok()) return status;
  return expect(";");
}

absl::Status Parser::parse_branch_targets(absl::string_view label) {
  next();
  Symbol symbol;
  symbol.kind = Symbol::targets;
  symbol.value = builder_.kernel->lists.size();
  if (absl::Status status = declare(label, symbol); !status.ok()) return status;
  builder_.kernel->lists.push_back(0);  // the number of targets, counted below
  do {
    scopes_.back().fixups.push_back({0, next().text, builder_.kernel->lists.size()});
    builder_.kernel->lists.push_back(0);
    ++builder_.kernel->lists[symbol.value];
  } while (accept(","));
  return expect(";");
}

absl::Status Parser::parse_statement() {
  const size_t start = at_;
  const int line = peek().line;
  uint32_t guard = kNone;
  if (accept("@")) {
    const bool negated = accept("!");
    const Symbol* predicate = find_symbol(next().text);
    if (predicate == nullptr || predicate->kind != Symbol::reg || predicate->type != Type::pred) {
      at_ = start;
      return error("the guard is not a predicate");
    }
    guard = predicate->slot * 2 + (negated ? 1 : 0);
  }
  if (!peek().word) return error(absl::StrCat("expected an instruction, found '", peek().text, "'"));
  const absl::string_view opcode = next().text;
  std::vector<Operand> operands;
  while (!accept(";")) {
    auto operand = parse_operand();
    if (!operand.ok()) return operand.status();
    operands.push_back(*std::move(operand));
    if (!accept(",") && peek().text != ";") return error(absl::StrCat("unexpected '", peek().text, "'"));
  }
  const absl::string_view name = opcode.substr(0, opcode.find('.'));
  const DecodeFunction decode = find_decoder(name);
  Decoder decoder(builder_, opcode, std::move(operands));
  if (decode == nullptr) {
    decoder.fail(absl::StrCat("unknown instruction '", name, "'"));
  } else {
    decode(decoder);
  }
  if (absl::Status status = decoder.finish(); !status.ok()) {
    at_ = start;
    return error(status.message());
  }
  decoder.out().guard = guard;
  decoder.out().line = line;
  for (Fixup fixup : decoder.fixups) {
    fixup.instruction = builder_.kernel->code.size();
    scopes_.back().fixups.push_back(fixup);
  }
  builder_.kernel->code.push_back(decoder.out());
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Parser::parse_integer() {
  const bool negative = accept("-");
  uint64_t value = 0;
  if (!parse_number(peek().text, value)) return error(absl::StrCat("'", peek().text, "' is not an integer"));
  next();
  return negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
}

absl::StatusOr<Operand> Parser::parse_vector() {
  Operand vector;
  vector.kind = Operand::vector;
  vector.text = "{...}";
  while (!accept("}")) {
    auto element = parse_operand();
    if (!element.ok()) return element.status();
    vector.elements.push_back(*std::move(element));
    if (!accept(",") && peek().text != "}") return error(absl::StrCat("unexpected '", peek().text, "'"));
  }
  return vector;
}

// Called after '[': parses the base, an offset and, for tensors, the coordinates.
absl::StatusOr<Operand> Parser::parse_address() {
  Operand address;
  address.kind = Operand::address;
  address.text = "[...]";
  auto base = parse_operand();
  if (!base.ok()) return base.status();
  address.elements.push_back(*std::move(base));
  if (accept("+")) {
    auto offset = parse_integer();
    if (!offset.ok()) return offset.status();
    address.integer_value = *offset;
  }
  while (accept(",")) {
    auto more = parse_operand();
    if (!more.ok()) return more.status();
    address.elements.push_back(*std::move(more));
  }
  if (absl::Status status = expect("]"); !status.ok()) return status;
  return address;
}

absl::Status Parser::parse_name(absl::string_view name, Operand& operand) {
  const Symbol* symbol = find_symbol(name);
  if (symbol == nullptr || symbol->kind == Symbol::label || symbol->kind == Symbol::targets) {
    operand.kind = Operand::label;
    if (symbol != nullptr) operand.symbol = *symbol;
    return absl::OkStatus();
  }
  operand.symbol = *symbol;
  if (symbol->kind == Symbol::reg) {
    operand.kind = Operand::reg;
    return absl::OkStatus();
  }
  operand.kind = Operand::integer;
  operand.named = true;
  operand.integer_value = static_cast<int64_t>(symbol->value);
  return absl::OkStatus();
}

absl::StatusOr<Operand> Parser::parse_operand() {
  if (accept("{")) return parse_vector();
  if (accept("[")) return parse_address();
  Operand operand;
  operand.negated = accept("!");
  const bool minus = !operand.negated && accept("-");
  if (!peek().word) return error(absl::StrCat("unexpected '", peek().text, "'"));
  const absl::string_view text = next().text;
  operand.text = text;
  uint64_t bits = 0;
  if (text == "_") {
    operand.kind = Operand::sink;
  } else if (text == "WARP_SZ") {
    operand.kind = Operand::integer;
    operand.integer_value = 32;
  } else if (text.size() == 10 && (absl::StartsWith(text, "0f") || absl::StartsWith(text, "0F")) &&
             absl::SimpleHexAtoi(text.substr(2), &bits)) {
    operand.kind = Operand::floating;
    operand.float_bits = 32;
    operand.integer_value = static_cast<int64_t>(bits);
    operand.float_value = from_bits<float>(bits);
  } else if (text.size() == 18 && (absl::StartsWith(text, "0d") || absl::StartsWith(text, "0D")) &&
             absl::SimpleHexAtoi(text.substr(2), &bits)) {
    operand.kind = Operand::floating;
    operand.float_bits = 64;
    operand.float_value = from_bits<double>(bits);
  } else if (parse_number(text, bits)) {
    operand.kind = Operand::integer;
    operand.integer_value = static_cast<int64_t>(bits);
  } else if (text[0] >= '0' && text[0] <= '9') {
    operand.kind = Operand::floating;
    if (!absl::SimpleAtod(text, &operand.float_value))
      return error(absl::StrCat("'", text, "' is not a number"));
  } else if (absl::Status status = parse_name(text, operand); !status.ok()) {
    return status;
  }
  if (minus) {
    operand.integer_value = -operand.integer_value;
    operand.float_value = -operand.float_value;
  }
  if (operand.named && peek().text == "+") {  // a variable's address plus a constant
    next();
    auto offset = parse_integer();
    if (!offset.ok()) return offset.status();
    operand.integer_value += *offset;
  }
  if (accept("|")) {
    operand.pair = next().text;
    const Symbol* second = find_symbol(operand.pair);
    if (second != nullptr) operand.pair_symbol = *second;
    if (operand.pair != "_" && (second == nullptr || second->kind != Symbol::reg)) {
      return error(absl::StrCat("'", operand.pair, "' is not a register"));
    }
  }
  return operand;
}

}  // namespace lathe::ptx
