// Random programs of elementwise ops and an independent evaluation, one element at a time.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "lathe/lathe.h"
#include "numbers.h"

namespace lathe::conformance {

// A value of a program: `f` for floats, `i` for integers, indices and conditions.
struct Scalar {
  double f = 0;
  int64_t i = 0;
};

struct Node {
  std::string name;  // "number", "index", "arith.addf", ...
  std::string type;
  std::vector<int> operands;
  std::string word;  // a predicate, or the source type of a cast
  Scalar constant;   // the value of a number; for an index, `i` is its loop
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
  // The result at (b, m, n), given the values of the inputs there.
  Scalar evaluate(const std::vector<Scalar>& inputs, const std::array<int64_t, 3>& loops) const;
};

// Uses only operations whose results must be the same bits on every device.
Program random_program(Random* random);

}  // namespace lathe::conformance
