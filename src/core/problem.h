// ProblemClass: the set of requests that one kernel serves. Dims: the true sizes of one request.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "core/json.h"
#include "core/ops.h"

namespace lathe {

// Inclusive range of M, or of argmax's row length. The M of argmax is always {1, kOpenEnd}.
struct Bucket {
  static constexpr int64_t kOpenEnd = INT32_MAX;
  int64_t lo = 1;
  int64_t hi = kOpenEnd;
  bool operator==(const Bucket& o) const { return lo == o.lo && hi == o.hi; }
};

// The bucket of M: one per value up to 16, then (16,32], (32,64], (64,128], (128,256], (256,512], (512, open).
Bucket m_bucket(int64_t m);
// Every bucket that contains a value of [1, m_max], ascending.
std::vector<Bucket> m_buckets(int64_t m_max);
// The bucket of argmax's row length: [1,1024], (1024,16384], (16384, open).
Bucket row_bucket(int64_t n);
std::vector<Bucket> row_buckets();

// The alignment that the kernel may assume of every operand: of its base address, row stride and batch stride.
//   kElement  the size of one element. Every CPU request is in this class; CPU kernels assume no alignment.
//   k16       16 bytes
//   kByte     less than one element. GPUs only. Its M bucket is open, so a weight has one such class.
enum class Alignment : int32_t { kElement = 0, k16 = 1, kByte = 2 };
int32_t alignment_bytes(Alignment a, DType element);

// Values equal lathe_dependent_launch's.
enum class DependentLaunch : int16_t { kOff = 0, kOn = 1, kConstantB = 2 };

// Granularity of an i8 operand's scale or zero point. kPerChannel: one per row of A or per column of B.
enum class Scale : int16_t { kNone = 0, kPerTensor = 1, kPerChannel = 2 };

// Which rows of A a matmul reads, and where its rows of D go. kOffsets and the following are the forms of
// lathe/grouped.h; kSum* sum the slots of a token into rows of that dtype. The M bucket of GPU classes is that of the
// mean rows per group. The CPU has kPlain, and kIndexed for one group of any form whose rows the host lists.
enum class Rows : int8_t {
  kPlain = 0,
  kDeviceM = 1,  // M is in device memory
  kOffsets = 2,
  kRowIds = 3,
  kCounts = 4,
  kIndexed = 5,
  kSumF32 = 6,
  kSumF16 = 7,
  kSumBF16 = 8
};
constexpr bool is_grouped(Rows rows) { return rows >= Rows::kOffsets; }
// Whether a list, made from the routing, says which rows a group has. Otherwise they follow each other.
constexpr bool lists_rows(Rows rows) {
  return is_grouped(rows) && rows != Rows::kOffsets && rows != Rows::kCounts;
}
constexpr DType sum_of(Rows rows) {  // kNone: slots are not summed
  return rows == Rows::kSumF32    ? DType::kF32
         : rows == Rows::kSumF16  ? DType::kF16
         : rows == Rows::kSumBF16 ? DType::kBF16
                                  : DType::kNone;
}
absl::string_view name_of(Rows rows);

// What a kernel computes, without how it computes it. Plain data without padding, because the dispatch path
// compares and hashes it as bytes.
struct ProblemClass {
  Op op = Op::kMatmul;
  DType a = DType::kNone;         // argmax: its input X
  DType b = DType::kNone;         // argmax: kNone
  DType c = DType::kNone;         // kNone when beta == 0
  DType d = DType::kNone;         // argmax, matmul_argmax: index dtype
  DType bias = DType::kNone;      // kNone: no bias
  DType residual = DType::kNone;  // kNone: no residual
  int32_t trans_a = 0;            // 1: stored COLUMN_MAJOR
  int32_t trans_b = 0;
  Activation activation = Activation::kNone;
  Combine combine = Combine::kAdd;  // what happens to the residual
  Determinism determinism = Determinism::kFast;
  Alignment alignment = Alignment::kElement;
  int8_t wants_values = 0;   // argmax, matmul_argmax
  Rows rows = Rows::kPlain;  // matmul
  int16_t packed_b = 0;      // PackedLayout of B (core/packed.h); 0: not packed
  // kTf32: f32 operands may be rounded to tf32. kInt8: A may be rounded to int8 with one scale per block; B
  // is in a block format. kBf16: A (f32) may be rounded to bf16, the dtype of B. Must be kStrict for all
  // other dtypes (takes_math in core/products.h).
  Math math = Math::kStrict;
  DType logits = DType::kNone;  // matmul_argmax: products are rounded to this dtype before the comparison
  int16_t generic = 0;          // 1: a generic kernel, for all sizes and forms (core/generic.h)
  DependentLaunch dependent_launch = DependentLaunch::kOff;  // kOff on devices without this feature
  Scale scale_a = Scale::kNone, scale_b = Scale::kNone;      // matmul of i8
  int16_t zero_a = 0;                                        // 1: A has a zero point
  Scale zero_b = Scale::kNone;                               // granularity of B's zero points
  int64_t n = 0;                                             // matmul: exact N; argmax: 0 (see row_lo)
  int64_t k = 0;                                             // matmul: exact K; argmax: 0
  int64_t m_lo = 1, m_hi = Bucket::kOpenEnd;                 // matmul: M bucket; argmax: always open
  int64_t row_lo = 0, row_hi = 0;                            // argmax: row-length bucket; matmul: 0
  uint64_t program_lo = 0, program_hi = 0;                   // elementwise: XXH3-128 of the program's text

  bool operator==(const ProblemClass& o) const;
};
static_assert(sizeof(ProblemClass) == 18 * 4 + 8 * 8,
              "no padding: ProblemClass is compared and hashed bytewise");

// Returns `c` with this alignment. On the CPU the alignment becomes kElement. With kByte the M bucket
// becomes open, except for argmax.
ProblemClass with_alignment(const ProblemClass& c, Alignment alignment, bool is_cpu);
uint64_t hash_of(const ProblemClass& c);
Json to_json(const ProblemClass& c);
absl::StatusOr<ProblemClass> problem_class_from_json(const Json& j);

// The true sizes of one request.
struct Dims {
  int64_t m = 0, n = 0, k = 0, batch = 1;
};

// Describes a request in error messages and logs: "matmul f32 a=n b=t m=7 n=4096 k=33 batch=1",
// "matmul_argmax bf16 a=n b=t m=7 n=128256 k=4096 logits=bf16 indices=i64".
std::string describe(const ProblemClass& c, const Dims& dims);

}  // namespace lathe
