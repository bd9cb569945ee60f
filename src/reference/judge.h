// Checks a payload's result against the payload's text.
#pragma once

#include <string>
#include <vector>

#include "reference/evaluate.h"

namespace lathe::cli {

// Compares a result with what the text says. Checks all elements, or as many as `seconds` allow, both ends
// first. Floats may differ by their rounding errors. Integers must be equal, unless they depend on a
// comparison that is too close to call.
struct Judgement {
  bool ok = true;
  int64_t judged = 0, total = 0;
  double worst = 0;  // largest error as a fraction of the granted error
  std::string what;  // describes the worst element
};
Judgement judge(Evaluator* evaluator, int64_t value, const void* elements, lathe_dtype dtype,
                const std::vector<int64_t>& shape, double seconds, Normal* random);

}  // namespace lathe::cli
