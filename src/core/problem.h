// A request, stripped of pointers (Problem), and the class of requests that one kernel serves (ProblemClass).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "core/json.h"

namespace lathe {

enum class Op : int32_t { kMatmul = 1, kArgmax = 2, kMatmulArgmax = 3, kElementwise = 4 };
absl::string_view name_of(Op op);  // "matmul", "argmax", "matmul_argmax", "elementwise"

// Inclusive range of M (argmax: unused, {1, kAnyM}) or of argmax's row length.
struct Bucket {
  static constexpr int64_t kOpenEnd = INT32_MAX;
  int64_t lo = 1;
  int64_t hi = kOpenEnd;
  bool operator==(const Bucket& o) const { return lo == o.lo && hi == o.hi; }
};

// M exactly up to 16, then (16,32], (32,64], (64,128], (128,256], (256,512], (512, open).
Bucket m_bucket(int64_t m);
// Every bucket that holds an M of [1, m_max], ascending.
std::vector<Bucket> m_buckets(int64_t m_max);
// Row length of argmax: [1,1024], (1024,16384], (16384, open).
Bucket row_bucket(int64_t n);
std::vector<Bucket> row_buckets();

// Which alignment the kernel may assume of every operand: of its base, the distance of its rows and of its
// matrices.
//   kElement  one element's bytes (on the CPU: none at all; every CPU request is of this class)
//   k16       16 bytes
//   kByte     none: below one element's. GPUs alone; its M bucket is open, one class a weight
enum class Alignment : int32_t { kElement = 0, k16 = 1, kByte = 2 };
int32_t alignment_bytes(Alignment a, DType element);

// Values equal lathe_dependent_launch's.
enum class DependentLaunch : int16_t { kOff = 0, kOn = 1, kConstantB = 2 };

// What one factor of an i8 operand's scale serves: the tensor; a row of A, a column of B.
enum class Scale : int16_t { kNone = 0, kPerTensor = 1, kPerChannel = 2 };

// What identifies a kernel's work apart from how it is done. Plain data: compared bytewise on the dispatch
// path, so every member is 2, 4 or 8 bytes and there is no padding.
struct ProblemClass {
  Op op = Op::kMatmul;
  DType a = DType::kNone;         // argmax: X
  DType b = DType::kNone;         // argmax: none
  DType c = DType::kNone;         // none when beta == 0
  DType d = DType::kNone;         // argmax, matmul_argmax: index dtype
  DType bias = DType::kNone;      // none: no bias
  DType residual = DType::kNone;  // none: no residual
  int32_t trans_a = 0;            // 1: stored COLUMN_MAJOR
  int32_t trans_b = 0;
  Activation activation = Activation::kNone;
  Determinism determinism = Determinism::kFast;
  Alignment alignment = Alignment::kElement;
  int16_t wants_values = 0;  // argmax, matmul_argmax
  int16_t packed_b = 0;      // matmul: the form B is packed in (core/packed.h), 0: as the layout says
  // kTf32: f32 operands may be rounded to tf32. kInt8: A may be rounded to bytes, scaled block by block,
  // where B is stored in blocks. kBf16: A of f32 may be rounded to bf16, as B is. Strict where the dtypes are
  // not those that it names (names_dtypes).
  Math math = Math::kStrict;
  DType logits = DType::kNone;  // matmul_argmax: what a product is rounded to before it is compared
  int16_t generic = 0;          // 1: the class of a generic kernel, of any sizes and form (core/generic.h)
  DependentLaunch dependent_launch = DependentLaunch::kOff;  // off where a device has none
  Scale scale_a = Scale::kNone, scale_b = Scale::kNone;      // matmul of i8
  int16_t zero_a = 0;                                        // 1: A has a zero point
  Scale zero_b = Scale::kNone;                               // B's zero points: one, or one a column
  int64_t n = 0;                                             // matmul: exact N; argmax: 0 (see row)
  int64_t k = 0;                                             // matmul: exact K; argmax: 0
  int64_t m_lo = 1, m_hi = Bucket::kOpenEnd;                 // matmul: M bucket; argmax: always open
  int64_t row_lo = 0, row_hi = 0;                            // argmax: row-length bucket; matmul: 0
  uint64_t program_lo = 0, program_hi = 0;                   // elementwise: XXH3-128 of its program's text

  bool operator==(const ProblemClass& o) const;
};
static_assert(sizeof(ProblemClass) == 18 * 4 + 8 * 8,
              "no padding: ProblemClass is compared and hashed bytewise");

// Requests of the class `c`, bucket included, whose operands are aligned so: on the CPU alignment makes no
// difference; below one element's there is one bucket of M for all.
ProblemClass with_alignment(const ProblemClass& c, Alignment alignment, bool is_cpu);
uint64_t hash_of(const ProblemClass& c);
Json to_json(const ProblemClass& c);
absl::StatusOr<ProblemClass> problem_class_from_json(const Json& j);

// The true sizes of one request.
struct Dims {
  int64_t m = 0, n = 0, k = 0, batch = 1;
};

// "matmul f32 a=n b=t m=7 n=4096 k=33 batch=1", "matmul_argmax bf16 a=n b=t m=7 n=128256 k=4096 logits=bf16
// indices=i64", for error messages and logs.
std::string describe(const ProblemClass& c, const Dims& dims);

}  // namespace lathe
