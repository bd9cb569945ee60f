// One argmax request in guarded memory and its reference.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "guarded_memory.h"
#include "lathe/lathe.h"
#include "numbers.h"

namespace lathe::conformance {

enum class Rows {
  kNormal,      // N(0, 1)
  kTies,        // integers of [0, 3]
  kConstant,    // all columns equal
  kAscending,   // the maximum is the last column
  kDescending,  // the maximum is the first column
  kNan,         // N(0, 1) with up to three NaN, of both signs
  kAllNan,
  kMinusInf,        // all columns -inf
  kMostlyMinusInf,  // -inf except one finite column
  kMostlyOne,       // 1 except one column of 2
  kNanAtEnd,        // 1 except the last column, a NaN of either sign
  kPlusInf,         // N(0, 1) with two +inf
  kZeros,           // +0 and -0, which are equal
  kLowest,          // all columns are the lowest finite value
  kNegative         // all columns below 0
};
inline constexpr int kRowsKinds = 15;

struct ArgmaxCase {
  int64_t rows = 1, n = 1;
  lathe_dtype in = LATHE_F32, index = LATHE_I64;
  bool wants_values = false;
  int64_t index_offset = 0;
  int64_t padding = 0;
  size_t misalign = 0;
  Flush flush = Flush::kEnd;
  Rows kind = Rows::kNormal;
  int64_t maximum = -1;  // kMostlyOne: the column of the 2; -1: random
  lathe_determinism determinism = LATHE_DETERMINISM_FAST;

  std::string describe() const;
};

class ArgmaxRequest {
 public:
  ArgmaxRequest(const ArgmaxCase& c, Random* random);

  const lathe_argmax_desc* desc() const { return &desc_; }
  lathe_argmax_desc* mutable_desc() { return &desc_; }
  void reset_output();
  testing::AssertionResult check() const;
  testing::AssertionResult run(lathe_device* device, lathe_stream stream = nullptr);

 private:
  std::vector<double> draw_row(Random* random) const;

  ArgmaxCase case_;
  std::unique_ptr<GuardedMemory> x_, indices_, values_;
  std::vector<int64_t> expected_index_;
  std::vector<double> expected_value_;
  lathe_argmax_desc desc_;
};

}  // namespace lathe::conformance
