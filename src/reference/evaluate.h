// Evaluates a payload's function element by element, from its text (src/compiler/meaning.h) and not from what
// Lathe compiles. Used to judge results, and to compute steps that no kernel does. Floats are computed in
// float64, integers exactly.
#pragma once

#include <lathe/lathe.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "reference/evaluate_scalar.h"
#include "reference/numbers.h"

namespace lathe::cli {

using Json = nlohmann::json;

// A tensor's elements; nothing where they, or those of a part of its dimensions, are more than an int64_t
// counts.
std::optional<int64_t> elements_in(const std::vector<int64_t>& shape);
// Sets `index` to the position of element `at` in row-major order.
void set_index(const std::vector<int64_t>& shape, int64_t at, std::vector<int64_t>* index);

class Evaluator {
 public:
  using Shapes = std::map<int64_t, std::vector<int64_t>>;  // by value; -1: an extent that is open
  // What the ops of `meaning`, a function's as the compiler wrote it, tell of the extents that `shapes`
  // leaves open. kInvalidArgument, with an op's place: its operands' shapes contradict each other.
  static absl::StatusOr<Shapes> told_shapes(const Json& meaning, const Shapes& shapes);

  // A value's elements, row after row, which outlive the evaluator; null: its shape alone is known.
  struct Bound {
    const void* elements;
    lathe_dtype dtype;
    std::vector<int64_t> shape;
  };
  // Also kInvalidArgument, with the op's place: it reads past an operand, or has an unknown operation.
  static absl::StatusOr<Evaluator> make(const Json& meaning, const std::map<int64_t, Bound>& values);
  Evaluator(Evaluator&&) = default;  // a copy's operands would lie in the original

  // What the text says of an element. Each that is reduced to is computed once, any other whenever another
  // than the last is asked for, without an allocation.
  Number at(int64_t value, const std::vector<int64_t>& index);

 private:
  struct Operand {
    int64_t value = -1;  // -1: `number`, everywhere
    Number number;
    std::vector<std::vector<int64_t>> map;  // for each dimension a constant and the loops' coefficients
    // Once settled: of what is bound, the same of its elements' places; of what is computed, an index.
    const Bound* bound = nullptr;
    std::vector<int64_t> places, index;
  };
  struct Node {
    enum Kind { kScalar, kNumber, kIndex } kind = kScalar;
    Scalar scalar;
    int64_t a = 0, b = 0, c = 0;
    Number number;
  };
  struct Op {
    std::string location;
    int64_t value = 0, source = -1, inputs = 0;
    bool empty = false, is_fill = false;
    std::string unknown;  // the name of an unknown operation; "": none
    Number fill;
    std::vector<int64_t> shape;  // -1: open
    std::vector<bool> reduction;
    std::vector<Operand> operands;
    std::vector<Node> nodes;
    std::vector<int64_t> yield;
    std::map<std::vector<int64_t>, std::vector<Number>> known;  // of reductions
    // Once settled.
    std::vector<int64_t> sizes;   // of the loops; -1: nothing says
    std::vector<size_t> reduced;  // those that reduce,
    int64_t steps = 1;            // and how many steps these are
    // Of the element at hand.
    std::vector<int64_t> loops, index;
    std::vector<Number> numbers, results;
    // Which element `results` are of, where nothing is reduced: one that is read twice is computed once.
    std::vector<int64_t> latest;
    size_t latest_result = SIZE_MAX;
  };

  explicit Evaluator(const Json& meaning);
  static Op read_op(const Json& json);
  static Node read_node(const Json& json, std::string* unknown);
  // Null: nothing is known.
  const std::vector<int64_t>* shape_of(int64_t value) const;
  // What an op's operands and results say of each other's shapes.
  absl::Status tell_shapes();
  absl::Status tell_shapes(Op* op);
  absl::Status tell_view(const Op& op);
  absl::Status tell_loops(Op* op, const Operand& like, int64_t value) const;
  void tell_value(const Op& op, const Operand& like, int64_t value);
  // What does not depend on the element.
  absl::Status settle(Op* op);
  absl::Status check_reads(const Op& op, const Operand& operand) const;
  absl::Status settle_reduction(Op* op) const;
  void place_elements(const Op& op, Operand* operand) const;
  static Number element(const Bound& bound, int64_t place);
  Number read(Operand* operand, const std::vector<int64_t>& loops);
  const std::vector<Number>& compute(Op* op, size_t result, const std::vector<int64_t>& index);
  std::vector<Op> ops_;
  std::map<int64_t, std::pair<size_t, size_t>> made_;  // value -> op, result
  std::map<int64_t, Bound> bound_;
  Shapes shapes_;
};

}  // namespace lathe::cli
