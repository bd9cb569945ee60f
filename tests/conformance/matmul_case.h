// One matmul request with everything that can vary, its operands in guarded memory, and its float64
// reference.
//
// The bound on |got - reference|. With u = 2^-24, S = sum_k |a_ik b_kj| and L = K + 4:
//   product sum      e0 = min(L, 6 sqrt(L)) u S        any order of f32 additions; the second form is the
//                                                      probabilistic bound (Higham and Mary, 2019) with
//                                                      lambda = 6
//                       + 2^-9 S                       where f32 may be rounded to tf32 (2^-10 of each
//                                                      factor), A of f32 to bf16 where B is (2^-9 of it)
//                       + 2^-10 S                      fp8: Hopper's matrix units keep about 14 bits of a sum
//                                                      (DeepSeek-V3 Technical Report, section 3.5.2), which K
//                                                      / 32 additions share
//                       + sum_k h_ik |b_kj|            q4_0 where A may be rounded to bytes: h is half of a
//                       127th of
//                                                      the largest |a| of the block of 32 that k is in, and
//                                                      the rounding of its scale and of its quotients
//                    e0 = 0                            i8
//   scales of i8     e0 = 3 u |sa sb AB|
//   alpha, beta, bias  e1 = |alpha| e0 + 4 u (|alpha AB| + |beta C| + |bias|)
//   activation       e2 = 1.2 e1 + 16 u (|x| + |act(x)|)  every activation's slope is below 1.13; 0 for relu
//   and none residual         e3 = e2 + 2 u (|act(x)| + |residual|)
// and the result must lie in [round(reference - e3), round(reference + e3)], rounding being to D's dtype,
// which is exact because rounding is monotonic. With Values::kSmallIntegers every f32 operation is exact and
// e3 is 0; so is everything of a result in i32.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "guarded_memory.h"
#include "lathe/lathe.h"
#include "numbers.h"

namespace lathe::conformance {

enum class Values {
  kNormal,         // N(0, 1); of i8 any value
  kSmallIntegers,  // [-4, 4]: sums are exact in f32, so one wrong index is a wrong answer
  kSpecial         // kNormal with a few NaN, infinities and zeros, where the dtype has them
};
enum class CMode { kNone, kUnreadNan, kSeparate, kInPlace };  // kUnreadNan: beta 0, C full of NaN
enum class ResidualMode { kNone, kSeparate, kInPlace };

struct MatmulCase {
  int64_t m = 1, n = 1, k = 1, batch = 1;
  lathe_dtype in = LATHE_F32, out = LATHE_F32;
  lathe_dtype b = LATHE_DTYPE_NONE;  // of B where it is not `in`: a block format, f16 or bf16
  // Of i8. Scales: 0 none, 1 per tensor, 2 per row of A or column of B.
  int scale_a = 0, scale_b = 0;
  bool has_zero_point = false;
  int32_t zero_point = 0;
  bool zero_b = false;  // B has zero points, as many as scales, which are drawn
  bool trans_a = false, trans_b = false;
  float alpha = 1, beta = 0;
  CMode c_mode = CMode::kNone;
  lathe_dtype c = LATHE_F32;  // of C when it is read or holds NaN; in place it is `out`
  lathe_dtype bias = LATHE_DTYPE_NONE;
  lathe_activation activation = LATHE_ACTIVATION_NONE;
  ResidualMode residual_mode = ResidualMode::kNone;
  lathe_dtype residual = LATHE_F32;  // in place it is `out`
  lathe_determinism determinism = LATHE_DETERMINISM_FAST;
  lathe_math math = LATHE_MATH_STRICT;
  int32_t split_k = 0, candidate = 0;
  int64_t padding = 0;  // added to every leading dimension, and a little differently to each
  // Every line and matrix begins a multiple of 16 elements after the first: all of them at multiples of 16
  // bytes with Flush::kStart.
  bool aligned_lines = false;
  bool broadcast_a = false, broadcast_b = false, broadcast_c = false, broadcast_residual = false;
  size_t misalign = 0;  // bytes every pointer is off its natural place
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

  uint8_t* at(int64_t b, int64_t i, int64_t j) const;  // of q4_0: its block
  lathe_operand operand() const;
};

// e0 as a part of S, but for what rounding to bytes may change.
double product_error(int64_t k, lathe_dtype a, lathe_dtype b, lathe_math math);

class MatmulRequest {
 public:
  // Draws the operands. The reference is computed when first asked for.
  MatmulRequest(const MatmulCase& c, Random* random);
  MatmulRequest(const MatmulRequest&) = delete;
  MatmulRequest& operator=(const MatmulRequest&) = delete;

  // The descriptor of the request; lives as long as the request. set_tuning changes it.
  const lathe_matmul_desc* desc() const { return &desc_; }
  lathe_matmul_desc* mutable_desc() { return &desc_; }
  const MatmulCase& parameters() const { return case_; }
  void set_tuning(int32_t split_k, int32_t candidate);
  // Of the device's memory.
  void set_workspace(void* data, size_t bytes, uint32_t flags = 0);

  // D's bytes, padding included, as the last check read them.
  std::vector<uint8_t> output() const { return {d_.memory->data(), d_.memory->data() + d_.memory->bytes()}; }

  // D poisoned (in place: C or the residual restored), ready for a run.
  void reset_output();
  // D against the reference, the memory around D, its padding and the inputs against what was there. Waits
  // for the null stream alone.
  testing::AssertionResult check();
  // D's elements, row by row, without padding.
  std::vector<uint8_t> output_bytes() const;
  std::vector<uint8_t> output_row(int64_t i) const;

  // reset, run on `device`, wait, check.
  testing::AssertionResult run(lathe_device* device, lathe_stream stream = nullptr);

 private:
  Operand make_operand(lathe_dtype dtype, bool transposed, int64_t rows, int64_t columns, bool broadcast,
                       int64_t pad_extra);
  double draw(lathe_dtype dtype);
  std::vector<double> fill(const Operand& o);
  std::vector<double> fill_blocks(const Operand& o);
  void make_scales();
  void make_zero_points();
  std::vector<double> scale_values(int kind, int64_t channels, std::unique_ptr<GuardedMemory>* memory,
                                   lathe_scale* scale, const lathe_scale** where);
  bool rounds_to_bytes() const;
  void compute_reference();
  bool inputs_unchanged() const;
  bool is_exact() const;

  MatmulCase case_;
  Random* random_;
  Operand a_, b_, c_, d_, residual_;
  std::unique_ptr<GuardedMemory> bias_, scale_a_memory_, scale_b_memory_, zero_memory_, zero_b_memory_;
  lathe_scale scale_a_ = LATHE_SCALE_INIT, scale_b_ = LATHE_SCALE_INIT;
  std::vector<double> scale_a_values_, scale_b_values_;  // M and N of them, or none
  std::vector<double> a_values_, b_values_, c_values_, bias_values_, residual_values_;
  std::vector<uint8_t> pristine_d_;  // D's memory before a run
  std::vector<double> expected_, bound_;
  // Where a smooth activation is taken at -infinity: its formula says -inf * 0, NaN, and its limit is 0. Both
  // pass.
  std::vector<bool> nan_allowed_;
  lathe_matmul_desc desc_;
  lathe_tuning tuning_;
  lathe_workspace workspace_;
};

// Every operand of the epilogue, of dtypes other than f32; C in place, padding and a batch by the
// activation's number.
void set_whole_epilogue(MatmulCase* c, lathe_activation activation);

// Whether the product of each number of first rows has, row by row, the bits of that of all of them, which is
// run and checked first.
testing::AssertionResult is_batch_invariant(lathe_device* device, MatmulRequest* request);

// Draws the operands of `c` from `random`, runs once, checks.
testing::AssertionResult run_case(lathe_device* device, const MatmulCase& c, Random* random);

}  // namespace lathe::conformance
