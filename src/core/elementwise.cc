#include "core/elementwise.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "core/json_object.h"

namespace lathe {
namespace {

constexpr size_t kMostBytes = 64 << 10, kMostNodes = 512;

struct OperationRow {
  const char* name;
  NodeSignature signature;
};
// To add an operation: a row here, a row in compiler/meaning.cc, a case in reference/evaluate_scalar.cc.
constexpr OperationRow kOperations[] = {
    {"arith.addf", NodeSignature::kFloat2},         {"arith.subf", NodeSignature::kFloat2},
    {"arith.mulf", NodeSignature::kFloat2},         {"arith.divf", NodeSignature::kFloat2},
    {"arith.maximumf", NodeSignature::kFloat2},     {"arith.minimumf", NodeSignature::kFloat2},
    {"arith.maxnumf", NodeSignature::kFloat2},      {"arith.minnumf", NodeSignature::kFloat2},
    {"arith.negf", NodeSignature::kFloat1},         {"math.exp", NodeSignature::kFloat1},
    {"math.erf", NodeSignature::kFloat1},           {"math.tanh", NodeSignature::kFloat1},
    {"math.absf", NodeSignature::kFloat1},          {"math.sqrt", NodeSignature::kFloat1},
    {"arith.addi", NodeSignature::kInteger2},       {"arith.subi", NodeSignature::kInteger2},
    {"arith.muli", NodeSignature::kInteger2},       {"arith.andi", NodeSignature::kInteger2},
    {"arith.ori", NodeSignature::kInteger2},        {"arith.maxsi", NodeSignature::kInteger2},
    {"arith.minsi", NodeSignature::kInteger2},      {"arith.extf", NodeSignature::kWiden},
    {"arith.truncf", NodeSignature::kNarrow},       {"arith.extsi", NodeSignature::kExtend},
    {"arith.extui", NodeSignature::kExtend},        {"arith.trunci", NodeSignature::kTruncate},
    {"arith.sitofp", NodeSignature::kFromInteger},  {"arith.index_cast", NodeSignature::kIndexCast},
    {"arith.select", NodeSignature::kSelect},       {"arith.cmpf", NodeSignature::kCompareFloats},
    {"arith.cmpi", NodeSignature::kCompareIntegers}};

constexpr const char* kFloatPredicates[] = {"false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
                                            "ueq",   "ugt", "uge", "ult", "ule", "une", "uno", "true"};
constexpr const char* kIntegerPredicates[] = {"eq",  "ne",  "slt", "sle", "sgt",
                                              "sge", "ult", "ule", "ugt", "uge"};

constexpr NodeType kNodeTypes[] = {NodeType::kIndex, NodeType::kI1,   NodeType::kI8,
                                   NodeType::kI16,   NodeType::kI32,  NodeType::kI64,
                                   NodeType::kF16,   NodeType::kBF16, NodeType::kF32};

// The width of an integer type in bits. An index has 64.
int bits_of(NodeType t) {
  switch (t) {
    case NodeType::kI1: return 1;
    case NodeType::kI8: return 8;
    case NodeType::kI16: return 16;
    case NodeType::kI32: return 32;
    default: return 64;
  }
}

NodeType node_type(DType t) {
  switch (t) {
    case DType::kF16: return NodeType::kF16;
    case DType::kBF16: return NodeType::kBF16;
    case DType::kI8: return NodeType::kI8;
    case DType::kI32: return NodeType::kI32;
    case DType::kI64: return NodeType::kI64;
    default: return NodeType::kF32;
  }
}

bool is_element(DType t) { return is_float(t) || t == DType::kI8 || t == DType::kI32 || t == DType::kI64; }

// Throws, like every reader below.
template <typename... Text>
[[noreturn]] void refuse(const Text&... text) {
  throw std::invalid_argument(absl::StrCat(text...));
}

DType read_dtype(const Json& j, const std::string& where) {
  DType t = DType::kNone;
  const std::string name = j.is_string() ? j.get<std::string>() : "";
  if (!parse(name, &t) || !is_element(t))
    refuse(where, ": dtype \"", name, "\" is not one of f32, f16, bf16, i8, i32, i64");
  return t;
}

ElementwiseInput read_input(const Json& j, const std::string& where) {
  if (!j.is_object() || j.size() != 2 || !j.contains("dims") || !j.contains("dtype"))
    refuse(where, ": not an object {\"dims\", \"dtype\"}");
  ElementwiseInput input;
  input.dtype = read_dtype(j["dtype"], where);
  const std::string all = j["dims"].is_string() ? j["dims"].get<std::string>() : "?";
  std::string dims = all;
  input.batch = !dims.empty() && dims[0] == 'b';
  if (input.batch) dims.erase(0, 1);
  input.along_m = dims == "nm";
  input.m = input.along_m || dims == "m" || dims == "mn";
  input.n = input.along_m || dims == "n" || dims == "mn";
  if (!input.m && !input.n && !dims.empty())
    refuse(where, ": dims \"", all, "\" are not one of \"\", n, m, mn, nm, or one of these after a b");
  return input;
}

const char* known_word(const Json& j, const std::string& where, const char* const* first, size_t count) {
  const std::string word = j.is_string() ? j.get<std::string>() : "";
  for (size_t i = 0; i < count; ++i)
    if (word == first[i]) return first[i];
  refuse(where, ": unknown predicate \"", word, "\"");
}

// Reads the nodes in order.
class NodeReader {
 public:
  explicit NodeReader(const ElementwiseProgram& program) : program_(program) {}

  ElementwiseNode read(const Json& j, int32_t number) {
    where_ = absl::StrCat("node ", number);
    number_ = number;
    // Refuse nested values first, because the JSON library copies them recursively.
    if (!j.is_array() || j.size() < 3 || j.size() > 6)
      refuse(where_, ": not an array [operation, type, ...]");
    for (const Json& part : j)
      if (part.is_structured()) refuse(where_, ": contains an array or an object");
    const std::string name = j[0].is_string() ? j[0].get<std::string>() : "";
    node_ = {};
    node_.type = read_type(j[1]);
    if (name == "number") return read_number(j);
    if (name == "index") return read_index(j);
    const auto* row = std::find_if(std::begin(kOperations), std::end(kOperations),
                                   [&](const OperationRow& r) { return name == r.name; });
    if (row == std::end(kOperations)) refuse(where_, ": unknown operation \"", name, "\"");
    node_.signature = row->signature;
    node_.name = row->name;
    where_ = absl::StrCat(where_, " (", name, ")");
    read_operands(j);
    return node_;
  }

 private:
  NodeType read_type(const Json& j) const {
    const std::string name = j.is_string() ? j.get<std::string>() : "";
    for (NodeType t : kNodeTypes)
      if (name == name_of(t)) return t;
    refuse(where_, ": type \"", name, "\" is not one of index, i1, i8, i16, i32, i64, f16, bf16, f32");
  }

  ElementwiseNode read_number(const Json& j) {
    node_.signature = NodeSignature::kNumber;
    if (j.size() != 3) refuse(where_, ": a number has the form [\"number\", type, x]");
    const Json& x = j[2];
    if (is_float(node_.type)) {
      if (x.is_number())
        node_.number = x.get<double>();
      else if (x == "nan")
        node_.number = std::numeric_limits<double>::quiet_NaN();
      else if (x == "inf")
        node_.number = std::numeric_limits<double>::infinity();
      else if (x == "-inf")
        node_.number = -std::numeric_limits<double>::infinity();
      else
        refuse(where_, ": its value is not a number");
      return node_;
    }
    if (!x.is_number_integer() || (x.is_number_unsigned() && x.get<uint64_t>() > INT64_MAX))
      refuse(where_, ": its value is not an integer of 64 bits");
    node_.integer = x.get<int64_t>();
    const int bits = bits_of(node_.type);
    if (bits == 1 && (node_.integer == 1 || node_.integer == -1)) node_.integer = 1;
    const int64_t most = bits == 64 ? INT64_MAX : (int64_t{1} << (bits == 1 ? 1 : bits - 1)) - 1;
    if (node_.integer > most || node_.integer < (bits == 1 ? 0 : -most - 1))
      refuse(where_, ": ", node_.integer, " does not fit ", name_of(node_.type));
    return node_;
  }

  ElementwiseNode read_index(const Json& j) {
    node_.signature = NodeSignature::kIndex;
    if (j.size() != 3 || node_.type != NodeType::kIndex || !j[2].is_number_integer() || j[2] < 0 || j[2] > 2)
      refuse(where_, ": an index has the form [\"index\", \"index\", 0, 1 or 2]");
    node_.integer = j[2].get<int64_t>();
    return node_;
  }

  NodeType operand(const Json& j, size_t i) {
    const Json& x = j[2 + i];
    if (!x.is_number_integer() || x < 0 || x >= number_)
      refuse(where_, ": operand ", i, " is not one of the values 0 to ", number_ - 1);
    node_.values[i] = x.get<int32_t>();
    return program_.type_of(node_.values[i]);
  }
  void expect(bool holds, absl::string_view what) const {
    if (!holds) refuse(where_, ": ", what);
  }
  void expect_parts(const Json& j, int32_t operands, size_t words) {
    expect(j.size() == 2 + static_cast<size_t>(operands) + words, "has the wrong number of operands");
    node_.value_count = operands;
  }
  void expect_source(const Json& j, NodeType from) const {
    expect(read_type(j[3]) == from, "its last element is not the operand's type");
  }

  void read_operands(const Json& j) {
    const NodeType to = node_.type;
    const auto all_of = [&](int32_t count, size_t words, bool legal) {
      expect_parts(j, count, words);
      for (int32_t i = 0; i < count; ++i)
        expect(operand(j, static_cast<size_t>(i)) == to, "an operand does not have the type of the result");
      expect(legal, "does not support this type");
    };
    switch (node_.signature) {
      case NodeSignature::kFloat1: return all_of(1, 0, is_float(to));
      case NodeSignature::kFloat2: return all_of(2, 0, is_float(to));
      case NodeSignature::kInteger2: return all_of(2, 0, !is_float(to));
      case NodeSignature::kWiden:
      case NodeSignature::kNarrow: {
        expect_parts(j, 1, 0);
        const NodeType from = operand(j, 0), wide = node_.signature == NodeSignature::kWiden ? to : from,
                       narrow = node_.signature == NodeSignature::kWiden ? from : to;
        return expect(wide == NodeType::kF32 && is_float(narrow) && narrow != NodeType::kF32,
                      "casts only between f32 and f16 or bf16");
      }
      case NodeSignature::kExtend:
      case NodeSignature::kTruncate: {
        const bool extends = node_.signature == NodeSignature::kExtend;
        expect_parts(j, 1, extends ? 1 : 0);
        const NodeType from = operand(j, 0);
        if (extends) expect_source(j, from);
        const auto is_integer = [](NodeType t) { return t > NodeType::kIndex && !is_float(t); };
        return expect(is_integer(from) && is_integer(to) &&
                          (extends ? bits_of(from) < bits_of(to) : bits_of(from) > bits_of(to)),
                      "does not cast between these types");
      }
      case NodeSignature::kFromInteger: {
        expect_parts(j, 1, 1);
        const NodeType from = operand(j, 0);
        expect_source(j, from);
        return expect(from > NodeType::kIndex && !is_float(from) && is_float(to),
                      "casts only integers to floats");
      }
      case NodeSignature::kIndexCast: {
        expect_parts(j, 1, 1);
        const NodeType from = operand(j, 0);
        expect_source(j, from);
        return expect(
            !is_float(from) && !is_float(to) && (from == NodeType::kIndex) != (to == NodeType::kIndex),
            "casts only between index and integers");
      }
      case NodeSignature::kSelect:
        expect_parts(j, 3, 0);
        expect(operand(j, 0) == NodeType::kI1, "its condition is not an i1");
        for (size_t i : {1, 2})
          expect(operand(j, i) == to, "an operand does not have the type of the result");
        return;
      case NodeSignature::kCompareFloats:
      case NodeSignature::kCompareIntegers: {
        const bool floats = node_.signature == NodeSignature::kCompareFloats;
        expect_parts(j, 2, 1);
        const NodeType x = operand(j, 0), y = operand(j, 1);
        expect(x == y && is_float(x) == floats, "does not compare these types");
        expect(to == NodeType::kI1, "its result must be an i1");
        node_.predicate = floats
                              ? known_word(j[4], where_, kFloatPredicates, std::size(kFloatPredicates))
                              : known_word(j[4], where_, kIntegerPredicates, std::size(kIntegerPredicates));
        return;
      }
      case NodeSignature::kNumber:
      case NodeSignature::kIndex: return;  // read_number and read_index read these
    }
  }

  const ElementwiseProgram& program_;
  std::string where_;
  int32_t number_ = 0;
  ElementwiseNode node_;
};

std::string dims_of(const ElementwiseInput& input) {
  const char* matrix = input.along_m ? "nm" : input.m ? (input.n ? "mn" : "m") : input.n ? "n" : "";
  return absl::StrCat(input.batch ? "b" : "", matrix);
}

Json number_json(const ElementwiseNode& node) {
  if (!is_float(node.type)) return Json(node.integer);
  if (std::isfinite(node.number)) return Json(node.number);
  return Json(std::isnan(node.number) ? "nan" : node.number > 0 ? "inf" : "-inf");
}

Json node_json(const ElementwiseProgram& p, const ElementwiseNode& node) {
  const std::string type(name_of(node.type));
  if (node.signature == NodeSignature::kNumber) return json_array("number", type, number_json(node));
  if (node.signature == NodeSignature::kIndex) return json_array("index", type, node.integer);
  Json json = json_array(node.name, type);
  for (int32_t i = 0; i < node.value_count; ++i) json.push_back(node.values[static_cast<size_t>(i)]);
  switch (node.signature) {
    case NodeSignature::kExtend:
    case NodeSignature::kFromInteger:
    case NodeSignature::kIndexCast: json.push_back(std::string(name_of(p.type_of(node.values[0])))); break;
    case NodeSignature::kCompareFloats:
    case NodeSignature::kCompareIntegers: json.push_back(node.predicate); break;
    default: break;
  }
  return json;
}

std::string canonical(const ElementwiseProgram& p) {
  Json inputs(Json::value_t::array), nodes(Json::value_t::array);
  for (const ElementwiseInput& input : p.inputs)
    inputs.push_back(json_object("dims", dims_of(input), "dtype", std::string(name_of(input.dtype))));
  for (const ElementwiseNode& node : p.nodes) nodes.push_back(node_json(p, node));
  return canonical_text(json_object("d", std::string(name_of(p.d)), "inputs", std::move(inputs), "nodes",
                                    std::move(nodes), "yield", p.yield));
}

// Assigns a slot to each input. Returns false if there are five and none can be the bias.
bool place_inputs(std::vector<ElementwiseInput>* inputs) {
  const auto is_bias = [](const ElementwiseInput& i) { return i.n && !i.m && !i.batch; };
  auto bias = inputs->end();
  if (inputs->size() == kMostElementwiseInputs) {
    bias = std::find_if(inputs->begin(), inputs->end(), is_bias);
    if (bias == inputs->end()) return false;
  }
  int32_t slot = 0;
  for (auto input = inputs->begin(); input != inputs->end(); ++input)
    input->slot = input == bias ? ElementwiseSlot::kBias : static_cast<ElementwiseSlot>(slot++);
  return true;
}

ElementwiseProgram read_program(const Json& j) {
  if (!j.is_object() || j.size() != 4 || !j.contains("d") || !j.contains("inputs") || !j.contains("nodes") ||
      !j.contains("yield"))
    refuse("not an object {\"d\", \"inputs\", \"nodes\", \"yield\"}");
  ElementwiseProgram p;
  p.d = read_dtype(j["d"], "d");
  const Json &inputs = j["inputs"], &nodes = j["nodes"], &yield = j["yield"];
  if (!inputs.is_array() || inputs.size() > kMostElementwiseInputs)
    refuse("inputs: not an array of at most ", kMostElementwiseInputs, " inputs");
  for (size_t i = 0; i < inputs.size(); ++i)
    p.inputs.push_back(read_input(inputs[i], absl::StrCat("input ", i)));
  if (!nodes.is_array() || nodes.size() > kMostNodes)
    refuse("nodes: not an array of at most ", kMostNodes, " nodes");
  NodeReader reader(p);
  for (size_t i = 0; i < nodes.size(); ++i)
    p.nodes.push_back(reader.read(nodes[i], static_cast<int32_t>(p.inputs.size() + i)));
  const size_t values = p.inputs.size() + p.nodes.size();
  if (!yield.is_number_integer() || yield < 0 || yield >= values)
    refuse("yield: not one of the ", values, " values");
  p.yield = yield.get<int32_t>();
  if (p.type_of(p.yield) != node_type(p.d))
    refuse("yield: value ", p.yield, " is ", name_of(p.type_of(p.yield)), " but d is ", name_of(p.d));
  return p;
}

}  // namespace

absl::string_view name_of(NodeType t) {
  constexpr absl::string_view kNames[] = {"index", "i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32"};
  return kNames[static_cast<size_t>(t)];
}

NodeType ElementwiseProgram::type_of(int32_t value) const {
  const auto at = static_cast<size_t>(value);
  return at < inputs.size() ? node_type(inputs[at].dtype) : nodes[at - inputs.size()].type;
}

absl::StatusOr<ElementwiseProgram> parse_elementwise(absl::string_view text) {
  if (text.size() > kMostBytes)
    return absl::InvalidArgumentError(
        absl::StrCat("program: ", text.size(), " bytes, more than the limit of ", kMostBytes));
  absl::StatusOr<Json> json = parse_json(text, "program");
  if (!json.ok()) return json.status();
  absl::StatusOr<ElementwiseProgram> p = read_json("program", [&] { return read_program(*json); });
  if (!p.ok()) return p;
  if (!place_inputs(&p->inputs))
    return absl::UnimplementedError("program: with five inputs, one of them must have the dims \"n\"");
  p->text = canonical(*p);
  const XXH128_hash_t digest = XXH3_128bits(p->text.data(), p->text.size());
  p->digest_lo = digest.low64;
  p->digest_hi = digest.high64;
  return p;
}

ProblemClass class_of(const ElementwiseProgram& program) {
  ProblemClass c;
  c.op = Op::kElementwise;
  c.d = program.d;
  for (const ElementwiseInput& input : program.inputs) {
    DType* const slots[] = {&c.a, &c.b, &c.c, &c.residual, &c.bias};
    *slots[static_cast<size_t>(input.slot)] = input.dtype;
  }
  c.program_lo = program.digest_lo;
  c.program_hi = program.digest_hi;
  return c;
}

bool is_program_of(const ProblemClass& c, const ElementwiseProgram& program) {
  return c.program_lo == program.digest_lo && c.program_hi == program.digest_hi;
}

}  // namespace lathe
