// Evaluates a function of a payload element by element, from the payload's text (src/compiler/meaning.h) and not from
// the steps that Lathe makes of it. Checks results, and computes steps that have no kernel. Floats are computed in
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

namespace lathe::reference {

using Json = nlohmann::json;

// The number of elements of a tensor. Nothing if the product of some of its extents overflows int64_t.
std::optional<int64_t> elements_in(const std::vector<int64_t>& shape);
// Sets `index` to the position of element `at` in row-major order.
void set_index(const std::vector<int64_t>& shape, int64_t at, std::vector<int64_t>* index);

class Evaluator {
 public:
  using Shapes = std::map<int64_t, std::vector<int64_t>>;  // value -> shape; -1: an open extent
  // Finds the extents that `shapes` leaves open, from the ops of `meaning` (one function, as the compiler wrote it).
  // kInvalidArgument, with the location of an op: the shapes of its operands contradict each other.
  static absl::StatusOr<Shapes> told_shapes(const Json& meaning, const Shapes& shapes);

  // A value's elements in row-major order, which must outlive the evaluator. Null: only the shape is known.
  struct Bound {
    const void* elements;
    lathe_dtype dtype;
    std::vector<int64_t> shape;
  };
  // kInvalidArgument, with the location of an op: as above, or the op reads past an operand, or has an unknown
  // operation.
  static absl::StatusOr<Evaluator> make(const Json& meaning, const std::map<int64_t, Bound>& values);
  Evaluator(Evaluator&&) = default;  // no copies: an operand points into the evaluator

  // The value of an element by the text. Results of reductions are computed once and kept. Of any other op only the
  // last element is kept; computing it allocates nothing.
  Number at(int64_t value, const std::vector<int64_t>& index);

 private:
  struct Operand {
    int64_t value = -1;  // -1: the operand is `number` at every index
    Number number;
    std::vector<std::vector<int64_t>>
        map;  // for each dimension: a constant, then a coefficient for each loop
    // Set by settle(). For a bound value: its elements, and a constant and coefficients that give an element's
    // position in memory. For a computed value: space for an index.
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
    std::map<std::vector<int64_t>, std::vector<Number>> known;  // results of a reduction, by index
    // Set by settle().
    std::vector<int64_t> sizes;   // length of each loop; -1: unknown
    std::vector<size_t> reduced;  // the loops that reduce
    int64_t steps = 1;            // the product of their lengths
    // The element that is being computed.
    std::vector<int64_t> loops, index;
    std::vector<Number> numbers, results;
    // The index that `results` belong to, without a reduction: an element that is read twice is computed once.
    std::vector<int64_t> latest;
    size_t latest_result = SIZE_MAX;
  };

  explicit Evaluator(const Json& meaning);
  static Op read_op(const Json& json);
  static Node read_node(const Json& json, std::string* unknown);
  // The shape of a value; null if nothing is known about it.
  const std::vector<int64_t>* shape_of(int64_t value) const;
  // Propagate known extents between the operands and results of each op.
  absl::Status tell_shapes();
  absl::Status tell_shapes(Op* op);
  absl::Status tell_view(const Op& op);
  absl::Status tell_loops(Op* op, const Operand& like, int64_t value) const;
  void tell_value(const Op& op, const Operand& like, int64_t value);
  // Prepares an op: checks it, and computes everything that is the same for all its elements.
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

}  // namespace lathe::reference
