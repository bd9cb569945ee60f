// One matmul request with everything that can vary, its operands in guarded memory, and its float64 reference.
//
// The bound on |got - reference|, with u = 2^-24, S = sum_k |a_ik b_kj| and L = K + 4:
//   product sum      e0 = min(L, 6 sqrt(L)) u S        any order of f32 additions; the second form is the probabilistic
//                                                      bound (Higham and Mary, 2019) with lambda = 6
//                       + 2^-9 S                       if f32 may be rounded to tf32 (2^-10 per factor), or A from f32
//                                                      to bf16 because B is bf16 (2^-9 of A)
//                       + 2^-10 S                      fp8: Hopper's matrix units keep about 14 bits of a sum over
//                                                      K / 32 additions (DeepSeek-V3 Technical Report, 3.5.2)
//                       + sum_k h_ik |b_kj|            block formats if A may be rounded to bytes: h is half of a 127th of
//                                                      the largest |a| in the block around k, plus the rounding of the
//                                                      scale and of the quotients; b are both terms of a weight. After
//                                                      round_a() h is 0, because the reference rounds A itself
//                    e0 = 0                            i8
//   scales of i8     e0 = 3 u |sa sb AB|
//   alpha, beta, bias  e1 = |alpha| e0 + 4 u (|alpha AB| + |beta C| + |bias|)
//   activation       e2 = 1.2 e1 + 16 u (|x| + |act(x)|)  every activation's slope is below 1.13; 0 for relu, none
//   residual         e3 = e2 + 2 u (|act(x)| + |residual|), or, if it multiplies, e2 |residual| + 2 u |act(x) residual|
// The result must lie in [round(reference - e3), round(reference + e3)], rounded to the dtype of D; this is exact
// because rounding is monotonic. With Values::kSmallIntegers every f32 operation is exact and e3 is 0. Results in i32
// are exact.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "block_weights.h"
#include "guarded_memory.h"
#include "lathe/lathe.h"
#include "numbers.h"

namespace lathe::conformance {

enum class Values {
  kNormal,         // N(0, 1); for i8 any value
  kSmallIntegers,  // [-4, 4]: sums are exact in f32, so one wrong index is a wrong answer
  kSpecial,        // kNormal with a few NaN, infinities and zeros, if the dtype has them
  // For dtypes of one byte: A (or B) holds every number of its dtype, and every product of a row and a column has one
  // term, in which the other operand is 1. So every element of D is one number of A (or B).
  kEveryNumberInA,
  kEveryNumberInB
};
enum class CMode { kNone, kUnreadNan, kSeparate, kInPlace };  // kUnreadNan: beta 0, C full of NaN
enum class ResidualMode { kNone, kSeparate, kInPlace };

struct MatmulCase {
  int64_t m = 1, n = 1, k = 1, batch = 1;
  lathe_dtype in = LATHE_F32, out = LATHE_F32;
  lathe_dtype b = LATHE_DTYPE_NONE;  // the dtype of B if it is not `in`: a block format, f16 or bf16
  // For i8. Scales: 0 none, 1 per tensor, 2 per row of A or column of B.
  int scale_a = 0, scale_b = 0;
  bool has_zero_point = false;
  int32_t zero_point = 0;
  bool zero_b = false;  // B has random zero points, as many as scales
  bool trans_a = false, trans_b = false;
  float alpha = 1, beta = 0;
  CMode c_mode = CMode::kNone;
  lathe_dtype c = LATHE_F32;  // the dtype of C if it is read or holds NaN; in place it is `out`
  lathe_dtype bias = LATHE_DTYPE_NONE;
  lathe_activation activation = LATHE_ACTIVATION_NONE;
  ResidualMode residual_mode = ResidualMode::kNone;
  lathe_dtype residual = LATHE_F32;  // in place it is `out`
  bool multiply = false;             // D is multiplied by the residual
  lathe_determinism determinism = LATHE_DETERMINISM_FAST;
  lathe_math math = LATHE_MATH_STRICT;
  int32_t split_k = 0, candidate = 0;
  int64_t padding = 0;  // added to every leading dimension, plus a small difference for each
  // Lines and matrices start at multiples of 16 elements. With Flush::kStart all of them are aligned to 16 bytes.
  bool aligned_lines = false;
  bool broadcast_a = false, broadcast_b = false, broadcast_c = false, broadcast_residual = false;
  size_t misalign = 0;  // every pointer is off its natural alignment by this many bytes
  Flush flush = Flush::kEnd;
  Values values = Values::kNormal;

  std::string describe() const;
};

// A matrix (or a batch) in guarded memory; padding is NaN.
struct Operand {
  std::unique_ptr<GuardedMemory> memory;
  lathe_dtype dtype = LATHE_DTYPE_NONE;
  bool transposed = false;
  int64_t rows = 0, columns = 0, batch = 0;  // logical; batch counts stored matrices
  int64_t leading_dimension = 0, batch_stride = 0;

  uint8_t* at(int64_t b, int64_t i, int64_t j) const;  // for q4_0 the block
  lathe_operand operand() const;
};

// e0 relative to S, without the error of rounding to bytes.
double product_error(int64_t k, lathe_dtype a, lathe_dtype b, lathe_math math);

class MatmulRequest {
 public:
  // Draws the operands. The reference is computed when it is first needed.
  MatmulRequest(const MatmulCase& c, Random* random);
  MatmulRequest(const MatmulRequest&) = delete;
  MatmulRequest& operator=(const MatmulRequest&) = delete;

  // The descriptor lives as long as the request. set_tuning changes it.
  const lathe_matmul_desc* desc() const { return &desc_; }
  lathe_matmul_desc* mutable_desc() { return &desc_; }
  const MatmulCase& parameters() const { return case_; }
  void set_tuning(int32_t split_k, int32_t candidate);
  // Block formats with LATHE_MATH_INT8: the reference rounds A to bytes exactly as ggml does, because the kernel that
  // runs does so (`rounds`), or it may be rounded in any way. Before the first check.
  void round_a(bool rounds) { rounds_a_ = rounds; }
  // The memory must be the device's.
  void set_workspace(void* data, size_t bytes, uint32_t flags = 0);

  // The bytes of D with padding, as of the last check.
  std::vector<uint8_t> output() const { return {d_.memory->data(), d_.memory->data() + d_.memory->bytes()}; }

  // Poisons D (in place: restores C or the residual) before a run.
  void reset_output();
  // Compares D with the reference, and the memory around D, its padding and the inputs with their contents before the
  // run. Waits for the null stream only.
  testing::AssertionResult check();
  // The elements of D, row by row, without padding.
  std::vector<uint8_t> output_bytes() const;
  std::vector<uint8_t> output_row(int64_t i) const;

  // Resets the output, runs on `device`, waits and checks.
  testing::AssertionResult run(lathe_device* device, lathe_stream stream = nullptr);

 private:
  Operand make_operand(lathe_dtype dtype, bool transposed, int64_t rows, int64_t columns, bool broadcast,
                       int64_t pad_extra);
  double draw(lathe_dtype dtype);
  std::vector<double> fill(const Operand& o);
  std::vector<double> fill_blocks(const Operand& o);
  std::vector<double> every_number(const Operand& o) const;
  void make_scales();
  void make_zero_points();
  std::vector<double> scale_values(int kind, int64_t channels, std::unique_ptr<GuardedMemory>* memory,
                                   lathe_scale* scale, const lathe_scale** where);
  bool rounds_to_bytes() const;
  BlockProduct block_product(int64_t batch) const;
  void compute_reference();
  bool inputs_unchanged() const;
  bool is_exact() const;

  MatmulCase case_;
  Random* random_;
  Operand a_, b_, c_, d_, residual_;
  std::unique_ptr<GuardedMemory> bias_, scale_a_memory_, scale_b_memory_, zero_memory_, zero_b_memory_;
  lathe_scale scale_a_ = LATHE_SCALE_INIT, scale_b_ = LATHE_SCALE_INIT;
  std::vector<double> scale_a_values_, scale_b_values_;  // M and N scales, or none
  std::vector<double> a_values_, b_values_, c_values_, bias_values_, residual_values_;
  BlockTerms b_terms_;  // block formats: the terms of b_values_
  bool rounds_a_ = false;
  std::vector<uint8_t> pristine_d_;  // the memory of D before a run
  std::vector<double> expected_, bound_;
  // Where a smooth activation is evaluated at -infinity. Its formula gives -inf * 0 = NaN, its limit is 0; both are
  // accepted.
  std::vector<bool> nan_allowed_;
  lathe_matmul_desc desc_;
  lathe_tuning tuning_;
  lathe_workspace workspace_;
};

// Uses every operand of the epilogue, with dtypes other than f32. C in place, padding and the batch depend on the
// number of the activation.
void set_whole_epilogue(MatmulCase* c, lathe_activation activation);

// Whether every product of the first m rows has the same bits, row by row, as the product of all rows, which is checked
// too. Tries every m up to `every_m_to`, and beyond it m at the ends of buckets. Changes the request's m.
testing::AssertionResult is_batch_invariant(lathe_device* device, MatmulRequest* request,
                                            int64_t every_m_to = 7);

// Draws the operands of `c` from `random`, runs once and checks.
testing::AssertionResult run_case(lathe_device* device, const MatmulCase& c, Random* random);

}  // namespace lathe::conformance
