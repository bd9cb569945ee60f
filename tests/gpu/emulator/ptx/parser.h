// Parses a module: directives in parser.cc, kernel bodies and operands in parser_body.cc.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "tests/gpu/emulator/ptx/decoder.h"
#include "tests/gpu/emulator/ptx/lexer.h"
#include "tests/gpu/emulator/ptx/module.h"

namespace lathe::ptx {

class Parser {
 public:
  explicit Parser(Module& module) : module_(module) {}
  absl::Status parse();

 private:
  struct Scope {
    absl::flat_hash_map<std::string, Symbol> symbols;
    std::vector<Fixup> fixups;
  };
  // A declared variable, for example `.shared .align 16 .b8 name[2048] = {...}`.
  struct Variable {
    std::string name;
    Type type = Type::b8;
    uint64_t count = 1;
    uint32_t align = 0;
    bool unsized = false;
    std::vector<Operand> initial;
    uint64_t bytes() const { return type_size(type) * count; }
  };
  // A module-level shared variable. Each kernel that uses it assigns it a place at its first use.
  struct SharedVariable {
    uint32_t size = 0, align = 0;
    bool dynamic = false;
  };

  // Tokens.
  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& next() { return tokens_[at_ < tokens_.size() - 1 ? at_++ : at_]; }
  bool accept(absl::string_view text);
  absl::Status expect(absl::string_view text);
  absl::Status error(absl::string_view why) const;
  void skip_line();
  absl::Status skip_braces();

  // Directives.
  absl::Status parse_module_item();
  absl::StatusOr<Variable> parse_variable(bool parameter);
  absl::Status parse_module_variable(absl::string_view space, bool is_extern);
  absl::Status parse_entry();
  absl::Status parse_parameters(Kernel& kernel);
  absl::Status parse_performance_directives(Kernel& kernel);
  absl::Status parse_dimensions(std::array<uint32_t, 3>& dims);
  absl::Status finish_kernel();
  void declare_specials();

  // Bodies.
  absl::Status parse_block();
  absl::Status parse_body_item();
  absl::Status parse_registers();
  absl::Status parse_body_variable(absl::string_view space);
  absl::Status parse_branch_targets(absl::string_view label);
  absl::Status parse_statement();
  absl::Status close_scope();
  absl::StatusOr<Operand> parse_operand();
  absl::StatusOr<Operand> parse_vector();
  absl::StatusOr<Operand> parse_address();
  absl::Status parse_name(absl::string_view name, Operand& operand);
  absl::StatusOr<int64_t> parse_integer();
  const Symbol* find_symbol(absl::string_view name);
  absl::Status declare(absl::string_view name, Symbol symbol);
  uint32_t place_shared(uint32_t size, uint32_t align);

  Module& module_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  std::vector<Scope> scopes_;
  KernelBuilder builder_;
  absl::flat_hash_map<std::string, SharedVariable> shared_;
};

// Parses "0x1F", "12U", "0b1". False if the text is not an integer.
bool parse_number(absl::string_view text, uint64_t& value);

}  // namespace lathe::ptx
