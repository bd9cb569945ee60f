// The matmuls that the command runs, and the check of their results.
#pragma once

#include <string>
#include <vector>

#include "reference/blocks.h"
#include "reference/check.h"
#include "reference/op_request.h"

namespace lathe::reference {

struct MatmulRequest : OpRequest {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  lathe_dtype dtype = LATHE_F32, out_dtype = LATHE_F32;
  lathe_dtype b_dtype = LATHE_DTYPE_NONE;  // NONE: the same as dtype
  lathe_math math = LATHE_MATH_STRICT;
  bool trans_a = false, trans_b = true;
  float alpha = 1, beta = 0;
  bool bias = false, residual = false;
  bool multiply = false;  // D is multiplied by the residual
  lathe_activation activation = LATHE_ACTIVATION_NONE;
  bool packed = false;  // B is packed by lathe_pack_weights
  // Formats with block scales ("f8_128", "awq"); "": none. The data of such an operand is what it stands for, in f32.
  std::string a_format, b_format;
  // Only used by runs.
  bool c_in_place = false, residual_in_place = false;  // the operand shares D's memory
  bool broadcast_a = false, broadcast_b = false;

  std::vector<int64_t> sizes() const { return {m, n, k}; }
  lathe_dtype weight_dtype() const { return b_dtype == LATHE_DTYPE_NONE ? dtype : b_dtype; }
  bool operator==(const MatmulRequest& o) const;
};

// The default dtype of the result: that of A, or f32 if A is i8 or fp8.
lathe_dtype default_result(lathe_dtype dtype);

// Size and layout of each operand. Its dtype is NONE if the request has no such operand.
struct MatmulSpecs {
  OperandSpec a, b, c, bias, residual, d;
};
MatmulSpecs specs_of(const MatmulRequest& r);

// The operands of a request, with its result. C and the residual are as they were before the run, even if they share
// D's memory.
struct MatmulData {
  Operand a, b, c, bias, residual, d;
};

// Compares all of D if that is cheap. Otherwise compares some rows and columns (the edges, and random ones between
// them) of some matrices of the batch. Always checks that every element was written, and nothing outside the elements.
//
// Let S = sum over k of |a b| and eps = 2^-23. The bound on |d - reference| is the sum of a part of S, a few eps times
// the epilogue's terms, and half a unit in the last place of D's dtype. The part of S is
//   6 eps       for f32 sums in any order up to K = 4096 (the root mean square error of a sequential sum of
//               independent terms is about 0.5 eps S). For larger K it grows as sqrt(K), because matrix units
//               truncate when they add.
//   + 2^-9      if f32 may be rounded to tf32 (at most 2^-10 for each factor)
//   + 2^-8      if A may be rounded to bf16
//   + 2^-10     for fp8, also with block scales: Hopper's matrix units keep about 14 bits of the sum in each of the
//               K / 32 additions (DeepSeek-V3 Technical Report, section 3.5.2)
//   + sqrt(K) eps for operands with block scales: few products dominate a sum, and each addition may round at their size
//   0           for i8, and for integers (Fill::kIntegers) while S is small enough for exact sums
// If A may be rounded to int8 (LATHE_MATH_INT8), half a scale for each element of A is added.
CheckResult check_matmul(const MatmulRequest& r, const MatmulData& data, Normal* random);

// An element of the result in float64, and check_matmul's bound of its error.
struct ExpectedElement {
  double value = 0, bound = 0;
};
// |got - e.value| as a fraction of the bound, at most 1e6. 1e6 also stands for a wrong NaN or infinity. A value beyond
// the dtype's range may be infinity.
double fraction_of_bound(const ExpectedElement& e, double got, lathe_dtype dtype);
// The elements of the first matrix of the batch, row by row. For operands without NaN and infinity.
std::vector<ExpectedElement> expected_elements(const MatmulRequest& r, const MatmulData& data);

// The part of the bound of check_matmul that comes from the sum. `magnitude` is S.
double sum_bound(const MatmulRequest& r, double magnitude);

// Whether the request allows rounding A to int8.
bool rounds_to_bytes(lathe_math math, lathe_dtype weight);
// A column of weights in blocks: the format, and the sum of both terms' magnitudes of each element (BlockParts).
struct BlockColumn {
  const BlockFormat* format = nullptr;
  std::vector<float> magnitudes;
  void read(const Operand& b, int64_t batch, int64_t column);
};
// The part of the bound that comes from rounding a row of A to int8.
double rounding_to_bytes(const float* a, const BlockColumn& b);

}  // namespace lathe::reference
