// Evaluates one scalar operation of a payload: floats in float64, integers exactly.
#pragma once

#include <cstdint>
#include <string>

namespace lathe::reference {

// The value of a float is `v`; `slack` bounds the error of f32 arithmetic in any order. The value of an integer is
// `i`, sign-extended from its width (a set i1 is -1). The slack of an integer is 0, unless it depends on a comparison
// of floats that are too close to tell which one is larger.
struct Number {
  double v = 0, slack = 0;
  int64_t i = 0;
};

// An operation, parsed from its name in the text.
struct Scalar {
  int code = -1;  // the operation, one of those in src/compiler/meaning.cc; -1: unknown, do not call scalar()
  bool is_float = false, is_f64 = false;  // the result
  int bits = 64, from_bits = 64;          // width of an integer result, and of the operand of a cast
  double unit = 0;   // relative rounding error of the result: half a unit in the last place
  int outcomes = 0;  // comparisons: the set of outcomes for which it is true
};
// `type` is the type of the result. `word` is the predicate of a comparison, or the type of a cast's operand.
Scalar scalar_named(const std::string& name, const std::string& type, const std::string& word);
// |a - b|.
double distance(int64_t a, int64_t b);
Number scalar(const Scalar& op, const Number& a, const Number& b, const Number& c);

}  // namespace lathe::reference
