// One matmul_argmax request in guarded memory and its float64 reference.
//
// A logit l_ij lies in [round(s - e), round(s + e)]. s is the sum in float64, e the bound of matmul_case.h for a
// product with bias (0 with Values::kSmallIntegers), and round() rounds to the dtype of the logits; it is monotonic.
// Index g of row i is right if some logits in these intervals have their first maximum at g: no logit before g must be
// at least as large, and none after g must be larger. If e is 0, exactly one index is right.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "guarded_memory.h"
#include "lathe/lathe.h"
#include "matmul_case.h"

namespace lathe::conformance {

struct MatmulArgmaxCase {
  int64_t m = 1, n = 1, k = 1;
  lathe_dtype in = LATHE_F32, logits = LATHE_F32, index = LATHE_I64;
  lathe_dtype b = LATHE_DTYPE_NONE;  // the dtype of B if it is not `in`: 16-bit weights or a block format
  lathe_math math = LATHE_MATH_STRICT;
  lathe_dtype bias = LATHE_DTYPE_NONE;
  bool trans_a = false, trans_b = true;
  bool wants_values = false;
  int64_t index_offset = 0;
  lathe_determinism determinism = LATHE_DETERMINISM_FAST;
  int32_t candidate = 0;
  int64_t padding = 0;
  int64_t distinct = 0;  // block formats: so many columns differ, and the others repeat them; 0: all
  size_t misalign = 0;
  Flush flush = Flush::kEnd;
  Values values = Values::kNormal;

  std::string describe() const;
};

class MatmulArgmaxRequest {
 public:
  MatmulArgmaxRequest(const MatmulArgmaxCase& c, Random* random);
  MatmulArgmaxRequest(const MatmulArgmaxRequest&) = delete;
  MatmulArgmaxRequest& operator=(const MatmulArgmaxRequest&) = delete;

  const lathe_matmul_argmax_desc* desc() const { return &desc_; }
  lathe_matmul_argmax_desc* mutable_desc() { return &desc_; }
  // As MatmulRequest::round_a().
  void round_a(bool rounds) { rounds_a_ = rounds; }
  // Replaces B by a packed copy, in guarded memory of exactly its size.
  lathe_status pack(lathe_device* device);
  void set_candidate(int32_t rank);
  void reset_output();
  testing::AssertionResult check();
  int64_t index(int64_t row) const;
  double value(int64_t row) const;
  // Resets the output, runs on `device` and checks.
  testing::AssertionResult run(lathe_device* device);

 private:
  struct Matrix {
    lathe_dtype dtype = LATHE_DTYPE_NONE;
    std::unique_ptr<GuardedMemory> memory;
    std::vector<double> values;  // row by row
    int64_t leading_dimension = 0;
  };
  Matrix draw_matrix(lathe_dtype dtype, bool transposed, int64_t rows, int64_t columns, int64_t padding);
  Matrix draw_weights(lathe_dtype dtype);
  double draw(lathe_dtype dtype);
  bool rounds_to_bytes() const { return !b_terms_.values.empty() && case_.math == LATHE_MATH_INT8; }
  // The row of A B, and the errors that its elements may have.
  void multiply_row(int64_t row, std::vector<double>* sums, std::vector<double>* errors) const;
  testing::AssertionResult check_row(int64_t row, const std::vector<double>& sums,
                                     const std::vector<double>& errors) const;

  MatmulArgmaxCase case_;
  Random* random_;
  Matrix a_, b_;
  BlockTerms b_terms_;  // block formats: the terms of b_
  bool rounds_a_ = false;
  std::unique_ptr<GuardedMemory> packed_, bias_, indices_, values_;
  std::vector<double> bias_values_;
  lathe_matmul_argmax_desc desc_;
  lathe_tuning tuning_;
};

}  // namespace lathe::conformance
