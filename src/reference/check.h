// The result of a check against float64, and what the checks of several ops share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/operand.h"

namespace lathe::reference {

struct CheckResult {
  bool ok = false;
  int64_t checked = 0, total = 0;    // compared elements, all elements of the result
  int64_t judged = 0, to_judge = 0;  // payloads: elements of the results compared with the text, all elements
  std::string unjudged;              // payloads: why nothing was compared with the text
  double worst = 0;                  // the largest error, as a fraction of its bound; above 1 the check fails
  std::string what;                  // how the elements were chosen; on failure, the worst element
};

// "" if every element was written, and nothing outside the elements.
std::string check_memory(const Operand& d, bool starts_as_poison);

inline constexpr double kEpsilon = 0x1p-23;
inline constexpr int64_t kBudget = int64_t{1} << 27;  // multiply-adds of one check, to limit its time

// All numbers of [0, size), or about `wanted` of them: both ends and random ones, ascending, without duplicates.
std::vector<int64_t> choose(int64_t size, int64_t wanted, Normal* random);

// A dot product. `rounded` bounds the error from rounding A to int8, block by block.
struct Dot {
  double sum = 0, magnitude = 0, rounded = 0;
};
Dot dot(const float* a, const float* b, int64_t k);

}  // namespace lathe::reference
