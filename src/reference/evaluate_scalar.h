// One scalar operation of a payload: floats in float64, integers exactly.
#pragma once

#include <cstdint>
#include <string>

namespace lathe::cli {

// A float is `v`; `slack` bounds the error of f32 arithmetic in any order. An integer is `i`, sign-extended
// from its width (a set i1 is -1). Its slack bounds its error, which is 0 unless it depends on a comparison
// that is too close to call.
struct Number {
  double v = 0, slack = 0;
  int64_t i = 0;
};

// An operation as the text names it, read once.
struct Scalar {
  int code = -1;  // of src/compiler/meaning.cc's list; -1: unknown, and scalar() must not be called
  bool is_float = false, is_f64 = false;
  int bits = 64, from_bits = 64;  // of the result, where that is an integer, and of a cast's operand
  double unit = 0;                // half a unit in the result's last place, relative
  int outcomes = 0;               // of a comparison: those that it holds for
};
// `type` is the result's; `word` a comparison's predicate or the type of a cast's operand.
Scalar scalar_named(const std::string& name, const std::string& type, const std::string& word);
// |a - b|.
double distance(int64_t a, int64_t b);
Number scalar(const Scalar& op, const Number& a, const Number& b, const Number& c);

}  // namespace lathe::cli
