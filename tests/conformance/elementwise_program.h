// Random programs of elementwise ops and what they mean, evaluated one element at a time by rules that are
// written down here again.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "lathe/lathe.h"
#include "numbers.h"

namespace lathe::conformance {

// A value of a program: `f` of a float, `i` of an integer, an index or a condition.
struct Scalar {
  double f = 0;
  int64_t i = 0;
};

struct Node {
  std::string name;  // "number", "index", "arith.addf", ...
  std::string type;
  std::vector<int> operands;
  std::string word;  // a predicate, or the type that is cast from
  Scalar constant;   // of a number; of an index its loop in `i`
};

struct Input {
  lathe_dtype dtype;
  std::string dims;
  bool has(char loop) const { return dims.find(loop) != std::string::npos; }
};

struct Program {
  std::vector<Input> inputs;
  std::vector<Node> nodes;
  int yield = 0;
  lathe_dtype d = LATHE_F32;

  std::string text() const;
  std::string type_of(int value) const;
  // At (b, m, n), of what the inputs have there.
  Scalar evaluate(const std::vector<Scalar>& inputs, const std::array<int64_t, 3>& loops) const;
};

// Of operations whose result every device must have to the bit.
Program random_program(Random* random);

}  // namespace lathe::conformance
