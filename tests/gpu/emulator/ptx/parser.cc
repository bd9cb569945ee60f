#include "tests/gpu/emulator/ptx/parser.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lathe::ptx {

absl::StatusOr<std::unique_ptr<Module>> Module::parse(absl::string_view text, bool linked) {
  std::unique_ptr<Module> module(new Module);
  module->linked_ = linked;
  module->text_ = std::string(text.substr(0, text.find('\0')));
  Parser parser(*module);
  if (absl::Status status = parser.parse(); !status.ok()) return status;
  return module;
}

const Kernel* Module::find_kernel(absl::string_view name) const {
  for (const auto& kernel : kernels_) {
    if (kernel->name == name) return kernel.get();
  }
  return nullptr;
}

const Global* Module::find_global(absl::string_view name) const {
  for (const Global& global : globals_) {
    if (global.name == name) return &global;
  }
  return nullptr;
}

absl::string_view Module::line(int number) const {
  absl::string_view rest = text_;
  for (int i = 1; i < number && !rest.empty(); ++i)
    rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
  return absl::StripAsciiWhitespace(rest.substr(0, rest.find('\n')));
}

bool parse_number(absl::string_view text, uint64_t& value) {
  absl::string_view digits = text;
  if (absl::EndsWith(digits, "U")) digits.remove_suffix(1);
  if (digits.empty()) return false;
  if (absl::StartsWith(digits, "0x") || absl::StartsWith(digits, "0X"))
    return absl::SimpleHexAtoi(digits, &value);
  int base = 10;
  if (absl::StartsWith(digits, "0b") || absl::StartsWith(digits, "0B")) {
    base = 2;
    digits.remove_prefix(2);
  } else if (digits.size() > 1 && digits[0] == '0') {
    base = 8;
  }
  value = 0;
  for (char c : digits) {
    if (c < '0' || c >= '0' + base) return false;
    value = value * base + (c - '0');
  }
  return !digits.empty();
}

bool Parser::accept(absl::string_view text) {
  if (peek().text != text) return false;
  ++at_;
  return true;
}

absl::Status Parser::error(absl::string_view why) const {
  const int line = peek().line;
  return absl::InvalidArgumentError(absl::StrCat("ptx line ", line, ": ", why, ": ", module_.line(line)));
}

absl::Status Parser::expect(absl::string_view text) {
  return accept(text) ? absl::OkStatus()
                      : error(absl::StrCat("expected '", text, "', found '", peek().text, "'"));
}

void Parser::skip_line() {
  const int line = peek().line;
  while (!peek().text.empty() && peek().line == line) ++at_;
}

absl::Status Parser::skip_braces() {
  if (absl::Status status = expect("{"); !status.ok()) return status;
  for (int depth = 1; depth > 0;) {
    if (peek().text.empty()) return error("'}' is missing");
    const absl::string_view text = next().text;
    depth += text == "{" ? 1 : text == "}" ? -1 : 0;
  }
  return absl::OkStatus();
}

absl::Status Parser::parse() {
  auto tokens = tokenize(module_.text_);
  if (!tokens.ok()) return tokens.status();
  tokens_ = *std::move(tokens);
  scopes_.emplace_back();
  declare_specials();
  while (!peek().text.empty()) {
    if (absl::Status status = parse_module_item(); !status.ok()) return status;
  }
  if (module_.target_.empty()) return absl::InvalidArgumentError("ptx: no .target directive");
  return absl::OkStatus();
}

absl::Status Parser::parse_module_item() {
  const absl::string_view word = peek().text;
  if (word == ".target") {
    module_.target_ = std::string(peek(1).text);
    skip_line();
    return absl::OkStatus();
  }
  if (word == ".version" || word == ".file" || word == ".address_size" || word == ".loc") {
    skip_line();
    return absl::OkStatus();
  }
  if (word == ".section") {
    while (peek().text != "{" && !peek().text.empty()) next();
    return skip_braces();
  }
  if (word == ".pragma") {
    while (!accept(";") && !peek().text.empty()) next();
    return absl::OkStatus();
  }
  bool is_extern = false;
  while (true) {
    const absl::string_view linkage = peek().text;
    if (linkage != ".visible" && linkage != ".extern" && linkage != ".weak" && linkage != ".common") break;
    is_extern |= linkage == ".extern";
    next();
  }
  if (accept(".entry")) return parse_entry();
  for (absl::string_view space : {".global", ".const", ".shared"}) {
    if (accept(space)) return parse_module_variable(space, is_extern);
  }
  if (peek().text == ".func") {
    // Functions are skipped: a call is refused where it occurs, so nobody can run the body.
    while (peek().text != ";" && peek().text != "{" && !peek().text.empty()) next();
    return peek().text == "{" ? skip_braces() : expect(";");
  }
  return error(absl::StrCat("'", peek().text, "' is not supported here"));
}

absl::StatusOr<Parser::Variable> Parser::parse_variable(bool parameter) {
  Variable variable;
  while (absl::StartsWith(peek().text, ".")) {
    absl::string_view word = next().text.substr(1);
    if (word == "align") {
      auto align = parse_integer();
      if (!align.ok()) return align.status();
      if (!parameter || variable.type == Type::b8) variable.align = static_cast<uint32_t>(*align);
    } else if (const auto type = parse_type(word)) {
      variable.type = *type;
    } else if (word == "v2" || word == "v4") {
      variable.count *= word == "v2" ? 2 : 4;
    } else if (parameter && (word == "ptr" || word == "global" || word == "shared" || word == "const" ||
                             word == "local" || word == "param" || word == "attribute")) {
    } else {
      return error(absl::StrCat("'.", word, "' is not supported in a declaration"));
    }
  }
  // In `.param .u64 .ptr .global .align 1 p` the alignment is that of the target of the pointer.
  if (variable.align == 0 || (parameter && variable.type != Type::b8))
    variable.align = type_size(variable.type);
  variable.name = std::string(next().text);
  while (accept("[")) {
    if (accept("]")) {
      variable.unsized = true;
      continue;
    }
    auto count = parse_integer();
    if (!count.ok()) return count.status();
    variable.count *= static_cast<uint64_t>(*count);
    if (absl::Status status = expect("]"); !status.ok()) return status;
  }
  if (accept("=")) {
    auto initial = parse_operand();
    if (!initial.ok()) return initial.status();
    variable.initial = initial->kind == Operand::vector ? initial->elements : std::vector<Operand>{*initial};
  }
  return variable;
}

absl::Status Parser::parse_module_variable(absl::string_view space, bool is_extern) {
  auto variable = parse_variable(false);
  if (!variable.ok()) return variable.status();
  if (absl::Status status = expect(";"); !status.ok()) return status;
  if (space == ".shared") {
    shared_[variable->name] = {static_cast<uint32_t>(variable->bytes()), variable->align,
                               is_extern || variable->unsized};
    if (shared_[variable->name].dynamic) shared_[variable->name].size = 0;
    return absl::OkStatus();
  }
  const uint64_t align = std::max<uint64_t>(variable->align, 16);
  module_.storage_.emplace_back(new uint8_t[variable->bytes() + align]());
  uint64_t address = reinterpret_cast<uint64_t>(module_.storage_.back().get());
  address = (address + align - 1) / align * align;
  uint8_t* place = reinterpret_cast<uint8_t*>(address);
  const uint32_t size = type_size(variable->type);
  if (variable->initial.size() > variable->count)
    return error(absl::StrCat(variable->name, " has too many values"));
  for (const Operand& value : variable->initial) {
    uint64_t bits = static_cast<uint64_t>(value.integer_value);
    if (value.kind == Operand::floating) {
      bits = size == 4 ? to_bits(static_cast<float>(value.float_value)) : to_bits(value.float_value);
    } else if (value.kind != Operand::integer) {
      return error(absl::StrCat(variable->name, ": initial value '", value.text, "' is not supported"));
    }
    std::memcpy(place, &bits, size);
    place += size;
  }
  module_.globals_.push_back({variable->name, address, variable->bytes()});
  Symbol symbol;
  symbol.kind = space == ".const" ? Symbol::constant : Symbol::global;
  symbol.value = address;
  return declare(variable->name, symbol);
}

uint32_t parameter_base(const std::string& target) {
  const int version = std::atoi(target.c_str() + std::min(target.size(), std::strlen("sm_")));
  return version >= 100 ? 896 : version >= 90 ? 528 : 352;
}

absl::Status Parser::parse_parameters(Kernel& kernel) {
  if (!accept("(")) return absl::OkStatus();
  while (!accept(")")) {
    if (absl::Status status = expect(".param"); !status.ok()) return status;
    auto variable = parse_variable(true);
    if (!variable.ok()) return variable.status();
    Parameter parameter;
    parameter.align = std::max<uint32_t>(variable->align, 1);
    parameter.size = static_cast<uint32_t>(variable->bytes());
    const uint32_t base = kernel.parameter_base, end = base + kernel.parameter_bytes;
    parameter.offset = (end + parameter.align - 1) / parameter.align * parameter.align - base;
    kernel.parameter_bytes = parameter.offset + parameter.size;
    kernel.parameters.push_back(parameter);
    Symbol symbol;
    symbol.kind = Symbol::param;
    symbol.value = base + parameter.offset;
    if (absl::Status status = declare(variable->name, symbol); !status.ok()) return status;
    accept(",");
  }
  return absl::OkStatus();
}

absl::Status Parser::parse_dimensions(std::array<uint32_t, 3>& dims) {
  dims = {1, 1, 1};
  for (int i = 0; i < 3; ++i) {
    auto value = parse_integer();
    if (!value.ok()) return value.status();
    dims[i] = static_cast<uint32_t>(*value);
    if (!accept(",")) break;
  }
  return absl::OkStatus();
}

absl::Status Parser::parse_performance_directives(Kernel& kernel) {
  while (absl::StartsWith(peek().text, ".")) {
    const absl::string_view word = next().text;
    std::array<uint32_t, 3> dims = {0, 0, 0};
    absl::Status status;
    if (word == ".reqntid") {
      status = parse_dimensions(kernel.required_block);
    } else if (word == ".maxntid") {
      status = parse_dimensions(kernel.max_block);
    } else if (word == ".reqnctapercluster") {
      status = parse_dimensions(kernel.cluster);
    } else if (word == ".minnctapersm") {
      status = parse_dimensions(dims);
      kernel.min_blocks = dims[0];
    } else if (word == ".maxnreg") {
      status = parse_dimensions(dims);
      kernel.max_registers = dims[0];
    } else if (word == ".maxclusterrank" || word == ".maxnctapersm") {
      status = parse_dimensions(dims);
    } else if (word == ".pragma") {
      while (!accept(";") && !peek().text.empty()) next();
    } else if (word != ".explicitcluster" && word != ".noreturn" && word != ".blocksareclusters") {
      return error(absl::StrCat("'", word, "' is not supported here"));
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Parser::parse_entry() {
  auto kernel = std::make_unique<Kernel>();
  kernel->name = std::string(next().text);
  kernel->target = module_.target_;
  kernel->parameter_base = parameter_base(kernel->target);
  kernel->static_shared = kSharedBase;
  kernel->registers.assign(kSpecialCount, 0);
  builder_ = KernelBuilder();
  builder_.kernel = kernel.get();
  scopes_.emplace_back();
  absl::Status status = parse_parameters(*kernel);
  if (status.ok()) status = parse_performance_directives(*kernel);
  if (status.ok() && !accept(";")) {  // a declaration has no body
    status = parse_block();
    if (status.ok()) status = finish_kernel();
    if (status.ok()) module_.kernels_.push_back(std::move(kernel));
  }
  if (status.ok()) status = close_scope();
  return status;
}

absl::Status Parser::finish_kernel() {
  Kernel& kernel = *builder_.kernel;
  // Every body ends with an implicit exit; a label may point to it.
  Decoder end(builder_, "ret", {});
  find_decoder("ret")(end);
  if (absl::Status status = end.finish(); !status.ok()) return status;
  kernel.code.push_back(end.out());
  const uint32_t align = kernel.dynamic_align;
  const uint64_t dynamic = (kernel.static_shared + align - 1) / align * align;
  for (uint32_t slot : builder_.dynamic_constants) kernel.registers[slot] += dynamic;
  return absl::OkStatus();
}

uint32_t Parser::place_shared(uint32_t size, uint32_t align) {
  Kernel& kernel = *builder_.kernel;
  const uint32_t offset = (kernel.static_shared + align - 1) / align * align;
  kernel.static_shared = offset + size;
  return offset;
}

absl::Status Parser::declare(absl::string_view name, Symbol symbol) {
  const auto [it, added] = scopes_.back().symbols.try_emplace(name, symbol);
  return added ? absl::OkStatus() : error(absl::StrCat("'", name, "' is declared twice"));
}

const Symbol* Parser::find_symbol(absl::string_view name) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto it = scope->symbols.find(name);
    if (it != scope->symbols.end()) return &it->second;
  }
  const auto shared = shared_.find(name);
  if (shared == shared_.end() || builder_.kernel == nullptr) return nullptr;
  const SharedVariable& variable = shared->second;
  Symbol symbol;
  if (variable.dynamic) {
    symbol.kind = Symbol::dynamic_shared;
    if (!module_.linked_)
      builder_.kernel->dynamic_align = std::max(builder_.kernel->dynamic_align, variable.align);
  } else {
    symbol.kind = Symbol::shared;
    symbol.value = place_shared(variable.size, variable.align);
  }
  return &(scopes_[1].symbols[std::string(name)] = symbol);
}

void Parser::declare_specials() {
  static constexpr const char* kNames[kSpecialCount] = {"%tid.x",
                                                        "%tid.y",
                                                        "%tid.z",
                                                        "%ntid.x",
                                                        "%ntid.y",
                                                        "%ntid.z",
                                                        "%ctaid.x",
                                                        "%ctaid.y",
                                                        "%ctaid.z",
                                                        "%nctaid.x",
                                                        "%nctaid.y",
                                                        "%nctaid.z",
                                                        "%laneid",
                                                        "%warpid",
                                                        "%nwarpid",
                                                        "%smid",
                                                        "%nsmid",
                                                        "%gridid",
                                                        "%lanemask_eq",
                                                        "%lanemask_lt",
                                                        "%lanemask_le",
                                                        "%lanemask_gt",
                                                        "%lanemask_ge",
                                                        "%clusterid.x",
                                                        "%clusterid.y",
                                                        "%clusterid.z",
                                                        "%nclusterid.x",
                                                        "%nclusterid.y",
                                                        "%nclusterid.z",
                                                        "%cluster_ctaid.x",
                                                        "%cluster_ctaid.y",
                                                        "%cluster_ctaid.z",
                                                        "%cluster_nctaid.x",
                                                        "%cluster_nctaid.y",
                                                        "%cluster_nctaid.z",
                                                        "%cluster_ctarank",
                                                        "%cluster_nctarank",
                                                        "%is_explicit_cluster",
                                                        "%dynamic_smem_size",
                                                        "%total_smem_size",
                                                        "%aggr_smem_size"};
  for (uint32_t slot = 0; slot < kSpecialCount; ++slot) {
    Symbol symbol;
    symbol.type = slot == kIsExplicitCluster ? Type::pred : slot == kGridid ? Type::b64 : Type::b32;
    symbol.slot = slot;
    scopes_.back().symbols[kNames[slot]] = symbol;
  }
}

}  // namespace lathe::ptx
