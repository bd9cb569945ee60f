// Checks a payload's result against the payload's text.
#pragma once

#include <string>
#include <vector>

#include "reference/evaluate.h"

namespace lathe::reference {

// The outcome of judge().
struct Judgement {
  bool ok = true;
  int64_t judged = 0, total = 0;  // compared elements, all elements
  double worst = 0;               // the largest error, as a fraction of the allowed error
  std::string what;               // describes the element with the largest error
};
// Compares a result with what the text says: all elements, or as many as `seconds` allow, starting with both ends.
// Floats may differ by their rounding errors. Integers must be equal, unless they depend on a comparison of floats
// that are too close to tell which one is larger.
Judgement judge(Evaluator* evaluator, int64_t value, const void* elements, lathe_dtype dtype,
                const std::vector<int64_t>& shape, double seconds, Normal* random);

}  // namespace lathe::reference
