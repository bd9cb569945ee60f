// One scalar operation of a payload, in float64.
#pragma once

#include <string>

#include "cli/evaluate.h"

namespace lathe::cli {

bool is_float_type(const std::string& type);
// The number of an operation of src/compiler/meaning.cc's list; -1: it is none.
int scalar_code(const std::string& name);
// `type` is the result's, `from` a cast's operand's.
Number scalar(int code, const std::string& type, const std::string& from, const std::string& predicate,
              const Number& a, const Number& b, const Number& c);

}  // namespace lathe::cli
