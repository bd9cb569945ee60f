// Whether a payload's result is what its text says.
#pragma once

#include <string>
#include <vector>

#include "cli/evaluate.h"

namespace lathe::cli {

// How a result compares with what the text says of it: all of it, or as much as `seconds` allow, both ends
// first. Integers are compared bit by bit, floats within what rounding may have made of them.
struct Judgement {
  bool ok = true;
  int64_t judged = 0, total = 0;
  double worst = 0;  // largest error as a fraction of what is granted
  std::string what;  // the worst element
};
Judgement judge(Evaluator* evaluator, int64_t value, const void* elements, lathe_dtype dtype,
                const std::vector<int64_t>& shape, double seconds, Normal* random);

}  // namespace lathe::cli
