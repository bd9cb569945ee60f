#include "reference/evaluate.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lathe::reference {
namespace {

Number number_of(const Json& json) {
  if (json.is_number_integer()) return {json.get<double>(), 0, json.get<int64_t>()};
  if (json.is_number()) return {json.get<double>(), 0, 0};
  const std::string name = json.get<std::string>();
  return {name == "nan" ? std::nan("") : name == "inf" ? INFINITY : -INFINITY, 0, 0};
}

std::vector<int64_t> shape_in(const Json& json) {
  std::vector<int64_t> shape;
  for (const Json& extent : json) shape.push_back(extent.is_null() ? -1 : extent.get<int64_t>());
  return shape;
}

int64_t place(const std::vector<int64_t>& shape, const std::vector<int64_t>& index) {
  int64_t at = 0;
  for (size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
  return at;
}

// The loop that a row of a map stands for; -1: the row is not a single loop.
int64_t loop_of(const std::vector<int64_t>& row) {
  int64_t loop = -1;
  for (size_t l = 1; l < row.size(); ++l) {
    if (row[l] == 0) continue;
    if (row[l] != 1 || loop >= 0) return -1;
    loop = static_cast<int64_t>(l) - 1;
  }
  return row[0] == 0 ? loop : -1;
}

template <typename... Words>
absl::Status error_at(const std::string& location, const Words&... words) {
  return absl::InvalidArgumentError(absl::StrCat(location, ": ", words...));
}

}  // namespace

std::optional<int64_t> elements_in(const std::vector<int64_t>& shape) {
  int64_t most = 1;
  for (int64_t extent : shape)
    if (extent > 1 && __builtin_mul_overflow(most, extent, &most)) return std::nullopt;
  return std::find(shape.begin(), shape.end(), 0) == shape.end() ? most : 0;
}

void set_index(const std::vector<int64_t>& shape, int64_t at, std::vector<int64_t>* index) {
  index->resize(shape.size());
  for (size_t d = shape.size(); d-- > 0; at /= std::max<int64_t>(shape[d], 1))
    (*index)[d] = at % std::max<int64_t>(shape[d], 1);
}

Evaluator::Node Evaluator::read_node(const Json& json, std::string* unknown) {
  Node node;
  const std::string name = json[0].get<std::string>();
  if (name == "number") {
    node.kind = Node::kNumber;
    node.number = number_of(json[2]);
    return node;
  }
  std::string word;
  int64_t* operands[] = {&node.a, &node.b, &node.c};
  for (size_t i = 2; i < json.size(); ++i)
    if (json[i].is_string()) {
      word = json[i].get<std::string>();
    } else {
      *operands[i - 2] = json[i].get<int64_t>();
    }
  if (name == "index") return node.kind = Node::kIndex, node;
  node.scalar = scalar_named(name, json[1].get<std::string>(), word);
  if (node.scalar.code < 0) *unknown = name;
  return node;
}

Evaluator::Op Evaluator::read_op(const Json& json) {
  Op op;
  op.location = json.at("location").get<std::string>();
  op.value = json.at("value").get<int64_t>();
  if (json.contains("shape")) op.shape = shape_in(json["shape"]);
  if (json.contains("same_as")) op.source = json["same_as"].get<int64_t>();
  op.empty = json.contains("empty");
  op.is_fill = json.contains("fill");
  if (op.is_fill) op.fill = number_of(json["fill"]);
  if (!json.contains("body")) return op;
  op.inputs = json.at("inputs").get<int64_t>();
  op.reduction = json.at("reduction").get<std::vector<bool>>();
  for (const Json& from : json.at("operands")) {
    Operand operand;
    if (from.contains("number")) {
      operand.number = number_of(from["number"]);
    } else {
      operand.value = from.at("value").get<int64_t>();
      operand.map = from.at("map").get<std::vector<std::vector<int64_t>>>();
    }
    op.operands.push_back(operand);
  }
  for (const Json& node : json.at("body")) op.nodes.push_back(read_node(node, &op.unknown));
  op.yield = json.at("yield").get<std::vector<int64_t>>();
  return op;
}

Evaluator::Evaluator(const Json& meaning) {
  for (const Json& json : meaning.at("ops")) {
    ops_.push_back(read_op(json));
    const size_t results = ops_.back().yield.empty() ? 1 : ops_.back().yield.size();
    for (size_t r = 0; r < results; ++r)
      made_[ops_.back().value + static_cast<int64_t>(r)] = {ops_.size() - 1, r};
  }
}

absl::StatusOr<Evaluator::Shapes> Evaluator::told_shapes(const Json& meaning, const Shapes& shapes) {
  Evaluator evaluator(meaning);
  evaluator.shapes_ = shapes;
  if (absl::Status s = evaluator.tell_shapes(); !s.ok()) return s;
  return std::move(evaluator.shapes_);
}

absl::StatusOr<Evaluator> Evaluator::make(const Json& meaning, const std::map<int64_t, Bound>& values) {
  Evaluator evaluator(meaning);
  for (const auto& [value, bound] : values) {
    if (!elements_in(bound.shape))
      return absl::InvalidArgumentError(
          absl::StrCat("a tensor of ", absl::StrJoin(bound.shape, "x"),
                       " is too large: the product of its extents exceeds 2^63 - 1"));
    evaluator.shapes_[value] = bound.shape;
    if (bound.elements != nullptr) evaluator.bound_[value] = bound;
  }
  if (absl::Status s = evaluator.tell_shapes(); !s.ok()) return s;
  for (Op& op : evaluator.ops_)
    if (absl::Status s = evaluator.settle(&op); !s.ok()) return s;
  return evaluator;
}

// Two passes, because an op may determine an extent that an earlier op left open.
absl::Status Evaluator::tell_shapes() {
  for (int pass = 0; pass < 2; ++pass)
    for (Op& op : ops_)
      if (absl::Status s = tell_shapes(&op); !s.ok()) return s;
  return absl::OkStatus();
}

const std::vector<int64_t>* Evaluator::shape_of(int64_t value) const {
  const auto known = shapes_.find(value);
  return known == shapes_.end() ? nullptr : &known->second;
}

absl::Status Evaluator::settle(Op* op) {
  if (op->yield.empty()) return absl::OkStatus();
  if (!op->unknown.empty()) return error_at(op->location, "unknown operation ", op->unknown);
  for (const Operand& operand : op->operands)
    if (absl::Status s = check_reads(*op, operand); !s.ok()) return s;
  if (absl::Status s = settle_reduction(op); !s.ok()) return s;
  op->loops.assign(op->sizes.size(), 0);
  op->numbers.resize(op->operands.size() + op->nodes.size());
  op->results.resize(op->yield.size());
  // If a loop has no iterations, only the initial values of the results are read.
  const bool empty = std::count(op->sizes.begin(), op->sizes.end(), 0) > 0;
  for (size_t i = 0; i < op->operands.size(); ++i) {
    Operand& operand = op->operands[i];
    operand.index.resize(operand.map.size());
    const auto bound = bound_.find(operand.value);
    if (bound == bound_.end() || (empty && i < static_cast<size_t>(op->inputs))) continue;
    operand.bound = &bound->second;
    place_elements(*op, &operand);
  }
  return absl::OkStatus();
}

absl::Status Evaluator::tell_shapes(Op* op) {
  if (op->source >= 0) return tell_view(*op);
  if (op->yield.empty()) return shapes_.try_emplace(op->value, op->shape), absl::OkStatus();
  std::vector<std::pair<const Operand*, int64_t>> values;  // a result has the map of its initial value
  for (const Operand& operand : op->operands)
    if (operand.value >= 0) values.push_back({&operand, operand.value});
  for (size_t r = 0; r < op->yield.size(); ++r)
    values.push_back(
        {&op->operands[static_cast<size_t>(op->inputs) + r], op->value + static_cast<int64_t>(r)});
  op->sizes.assign(op->reduction.size(), -1);
  for (const auto& [like, value] : values)
    if (absl::Status s = tell_loops(op, *like, value); !s.ok()) return s;
  for (size_t r = 0; r < op->yield.size(); ++r) {
    const Operand& like = op->operands[static_cast<size_t>(op->inputs) + r];
    for (const auto& row : like.map)
      if (loop_of(row) < 0)
        return error_at(op->location, "the map of its result is not a permutation of the loops");
    shapes_.try_emplace(op->value + static_cast<int64_t>(r), like.map.size(), -1);
  }
  for (const auto& [like, value] : values) tell_value(*op, *like, value);
  return absl::OkStatus();
}

absl::Status Evaluator::tell_loops(Op* op, const Operand& like, int64_t value) const {
  const std::vector<int64_t>* shape = shape_of(value);
  for (size_t d = 0; shape != nullptr && d < shape->size(); ++d) {
    const int64_t loop = loop_of(like.map[d]), extent = (*shape)[d];
    if (loop < 0 || extent < 0) continue;
    int64_t& size = op->sizes[static_cast<size_t>(loop)];
    if (size >= 0 && size != extent)
      return error_at(op->location, "dimension ", d, " of an operand of ", absl::StrJoin(*shape, "x"), " is ",
                      extent, ", but another operand has ", size);
    size = extent;
  }
  return absl::OkStatus();
}

void Evaluator::tell_value(const Op& op, const Operand& like, int64_t value) {
  const auto known = shapes_.find(value);
  if (known == shapes_.end()) return;
  for (size_t d = 0; d < known->second.size(); ++d)
    if (known->second[d] < 0 && loop_of(like.map[d]) >= 0)
      known->second[d] = op.sizes[static_cast<size_t>(loop_of(like.map[d]))];
}

// An op that gives the same elements another shape. With the same number of dimensions the shapes must be equal, and
// each may have extents that the other leaves open.
absl::Status Evaluator::tell_view(const Op& op) {
  std::vector<int64_t>& shape = shapes_.try_emplace(op.value, op.shape).first->second;
  const auto known = shapes_.find(op.source);
  if (known == shapes_.end()) return absl::OkStatus();
  std::vector<int64_t>& source = known->second;
  if (shape.size() == source.size()) {
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] < 0) shape[d] = source[d];
      if (source[d] < 0) source[d] = shape[d];
    }
    if (shape == source) return absl::OkStatus();
  } else {
    const auto is_open = [](const std::vector<int64_t>& s) { return std::count(s.begin(), s.end(), -1) > 0; };
    if (!is_open(shape) && !is_open(source) && elements_in(shape) == elements_in(source))
      return absl::OkStatus();
  }
  return error_at(op.location, "cannot change the shape ", absl::StrJoin(source, "x"), " to ",
                  absl::StrJoin(shape, "x"));
}

// Checks dimensions whose index is not a single loop: the smallest and the largest index must be in range.
absl::Status Evaluator::check_reads(const Op& op, const Operand& operand) const {
  const std::vector<int64_t>* shape = operand.value < 0 ? nullptr : shape_of(operand.value);
  if (shape == nullptr || std::count(op.sizes.begin(), op.sizes.end(), 0) > 0) return absl::OkStatus();
  for (size_t d = 0; d < shape->size(); ++d) {
    const std::vector<int64_t>& row = operand.map[d];
    if (loop_of(row) >= 0 || (*shape)[d] < 0) continue;
    int64_t least = row[0], greatest = row[0];
    bool counted = true;
    for (size_t l = 0; l < op.sizes.size(); ++l) {
      if (row[l + 1] == 0) continue;
      if (op.sizes[l] < 0) return error_at(op.location, "the length of its loop ", l, " is unknown");
      int64_t span = 0, &end = row[l + 1] < 0 ? least : greatest;
      counted = counted && !__builtin_mul_overflow(row[l + 1], op.sizes[l] - 1, &span) &&
                !__builtin_add_overflow(end, span, &end);
    }
    if (!counted || least < 0 || greatest >= (*shape)[d])
      return error_at(op.location, "it reads dimension ", d, " of an operand of ", absl::StrJoin(*shape, "x"),
                      counted ? absl::StrCat(" from ", least, " to ", greatest) : " beyond 2^63 - 1");
  }
  return absl::OkStatus();
}

absl::Status Evaluator::settle_reduction(Op* op) const {
  std::vector<int64_t> sizes;
  for (size_t l = 0; l < op->reduction.size(); ++l) {
    if (!op->reduction[l]) continue;
    if (op->sizes[l] < 0) return error_at(op->location, "the length of its loop ", l, " is unknown");
    op->reduced.push_back(l);
    sizes.push_back(op->sizes[l]);
  }
  const std::optional<int64_t> steps = elements_in(sizes);
  if (!steps) return error_at(op->location, "it reduces more than 2^63 - 1 elements");
  op->steps = *steps;
  return absl::OkStatus();
}

// Computes how the position of a bound operand's element depends on the loops. A loop with one iteration is left out,
// so that its coefficient cannot overflow.
void Evaluator::place_elements(const Op& op, Operand* operand) const {
  operand->places.assign(op.sizes.size() + 1, 0);
  int64_t stride = 1;
  for (size_t d = operand->map.size(); d-- > 0; stride *= operand->bound->shape[d]) {
    operand->places[0] += stride * operand->map[d][0];
    for (size_t l = 0; l < op.sizes.size(); ++l)
      if (op.sizes[l] > 1) operand->places[l + 1] += stride * operand->map[d][l + 1];
  }
}

Number Evaluator::element(const Bound& bound, int64_t place) {
  if (is_integer(bound.dtype)) return {0, 0, load_integer(bound.elements, bound.dtype, place)};
  return {load(bound.elements, bound.dtype, place), 0, 0};
}

Number Evaluator::read(Operand* operand, const std::vector<int64_t>& loops) {
  if (operand->value < 0) return operand->number;
  const auto inner = [&](const std::vector<int64_t>& row) {
    int64_t sum = row[0];
    for (size_t l = 0; l < loops.size(); ++l) sum += row[l + 1] * loops[l];
    return sum;
  };
  if (operand->bound != nullptr) return element(*operand->bound, inner(operand->places));
  for (size_t d = 0; d < operand->map.size(); ++d) operand->index[d] = inner(operand->map[d]);
  return at(operand->value, operand->index);
}

const std::vector<Number>& Evaluator::compute(Op* op, size_t result, const std::vector<int64_t>& index) {
  if (!op->reduced.empty()) {
    const auto known = op->known.find(index);
    if (known != op->known.end()) return known->second;
  } else if (op->latest_result == result && op->latest == index) {
    return op->results;
  }
  std::vector<int64_t>& loops = op->loops;
  std::vector<Number>&numbers = op->numbers, &results = op->results;
  std::fill(loops.begin(), loops.end(), 0);
  const auto& map = op->operands[static_cast<size_t>(op->inputs) + result].map;
  for (size_t d = 0; d < map.size(); ++d)
    if (loop_of(map[d]) >= 0) loops[static_cast<size_t>(loop_of(map[d]))] = index[d];
  for (size_t r = 0; r < results.size(); ++r)
    results[r] = read(&op->operands[static_cast<size_t>(op->inputs) + r], loops);
  for (int64_t step = 0; step < op->steps; ++step) {
    int64_t rest = step;
    for (size_t l = op->reduced.size(); l-- > 0; rest /= op->sizes[op->reduced[l]])
      loops[op->reduced[l]] = rest % op->sizes[op->reduced[l]];
    for (size_t i = 0; i < static_cast<size_t>(op->inputs); ++i) numbers[i] = read(&op->operands[i], loops);
    std::copy(results.begin(), results.end(), numbers.begin() + op->inputs);
    for (size_t n = 0; n < op->nodes.size(); ++n) {
      const Node& node = op->nodes[n];
      const auto of = [&](int64_t i) -> const Number& { return numbers[static_cast<size_t>(i)]; };
      numbers[op->operands.size() + n] = node.kind == Node::kNumber ? node.number
                                         : node.kind == Node::kIndex
                                             ? Number{0, 0, loops[static_cast<size_t>(node.a)]}
                                             : scalar(node.scalar, of(node.a), of(node.b), of(node.c));
    }
    for (size_t r = 0; r < results.size(); ++r) results[r] = numbers[static_cast<size_t>(op->yield[r])];
  }
  if (!op->reduced.empty()) return op->known[index] = results;
  op->latest = index;
  op->latest_result = result;
  return results;
}

Number Evaluator::at(int64_t value, const std::vector<int64_t>& index) {
  const auto bound = bound_.find(value);
  if (bound != bound_.end()) return element(bound->second, place(bound->second.shape, index));
  const auto made = made_.find(value);
  if (made == made_.end()) return {std::nan(""), 0, 0};
  Op& op = ops_[made->second.first];
  if (op.is_fill) return op.fill;
  if (op.empty) return {std::nan(""), 0, 0};
  if (op.source < 0) return compute(&op, made->second.second, index)[made->second.second];
  const std::vector<int64_t>*from = shape_of(op.source), *to = shape_of(value);
  if (from == nullptr || to == nullptr) return {std::nan(""), 0, 0};
  set_index(*from, place(*to, index), &op.index);
  return at(op.source, op.index);
}

}  // namespace lathe::reference
