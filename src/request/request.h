// One checked request: what the C descriptors say, as dimensions, problem class and argument block.
//
// Checking is one pass that allocates nothing on success. A failure's message names the request and the
// cause: "matmul f32 a=n b=t m=7 n=4096 k=33 batch=1 on cpu: lda 31 < k 33".
#pragma once

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "core/args.h"
#include "core/problem.h"
#include "core/weights.h"
#include "lathe/lathe.h"
#include "options/options.h"
#include "options/raw_enum.h"
#include "request/dispatch_key.h"
#include "request/overlap.h"

namespace lathe {

// What a descriptor is read for.
enum class Purpose {
  kRun,   // pointers are checked
  kPlan,  // data pointers are not read; NULL still means "none" for bias, residual and values
  kWarm,  // as kPlan, and M (rows) is ignored
};

struct RequestContext {
  absl::string_view device;                     // for messages
  bool is_cpu = true;                           // the stream must then be NULL
  MissPolicy miss_policy = MissPolicy::kBlock;  // the context's
  bool dependent_launch = false;                // the device has it
};

// Bytes from an operand's first to one past its last; 0 of one that there is not. argmax: X, indices, values.
struct Spans {
  int64_t a, b, c, d, bias, residual, values;
};

struct Request {
  DispatchKey key;
  Dims dims;
  ArgumentBlock args;  // splits and k_chunk unset
  // No element of the output exists, or (on the CPU) the output is the epilogue of an empty product: no
  // kernel is needed.
  bool nothing_to_do = false;
  bool empty_product = false;
  // On a GPU an empty product is one of K = 1 over a zero that A and B both point to: the request's sizes and
  // class say so.
  bool zero_product = false;
  bool needs_no_kernel() const { return nothing_to_do || empty_product; }
  bool reads_operands() const { return !empty_product && !zero_product; }  // A and B
  MissPolicy miss_policy = MissPolicy::kBlock;
  void* stream = nullptr;
  void* workspace = nullptr;  // the caller's
  size_t workspace_bytes = 0;
  bool workspace_is_zeroed = false;
  Spans spans;                             // set for a matmul or argmax that is to run
  const lathe_program* program = nullptr;  // elementwise: the caller's, during the call
};

absl::Status read_matmul(const lathe_matmul_desc* desc, Purpose purpose, const RequestContext& context,
                         void* stream, Request* out);
absl::Status read_argmax(const lathe_argmax_desc* desc, Purpose purpose, const RequestContext& context,
                         void* stream, Request* out);
absl::Status read_matmul_argmax(const lathe_matmul_argmax_desc* desc, Purpose purpose,
                                const RequestContext& context, void* stream, Request* out);

absl::Status read_elementwise(const lathe_elementwise_desc* desc, Purpose purpose,
                              const RequestContext& context, void* stream, Request* out);

// Whether the op multiplies matrices: an N or K of 0 is then an empty product.
inline bool is_product(Op op) { return op == Op::kMatmul || op == Op::kMatmulArgmax; }

// "matmul f32 ...", with the sizes that the caller gave; "matmul f32 ... on cpu".
std::string describe(const Request& request);
std::string describe(const Request& request, absl::string_view device);

// ---- Pieces shared by the readers (request.cc)
// -----------------------------------------------------------

// The largest dimension: argument blocks carry 32-bit sizes.
constexpr int64_t kMaxDim = INT32_MAX;

// The readers' checks answer a bool and leave the reason in `why`, bare of the request: on the path of a hit
// no absl::Status is made or handed about.
[[gnu::cold]] bool refuse(absl::Status* why, absl::Status cause);

// Walks a descriptor's extension chain.
bool read_chain(const lathe_chain* chain, Request* out, absl::Status* why);

// Sets out->miss_policy.
inline bool read_policy(const lathe_miss_policy& policy, const RequestContext& context, Request* out,
                        absl::Status* why) {
  out->miss_policy = context.miss_policy;
  if (__builtin_expect(raw(policy) == LATHE_MISS_DEFAULT, 1)) return true;
  absl::StatusOr<MissPolicy> read = read_miss_policy(policy, context.miss_policy);
  if (!read.ok()) return refuse(why, read.status());
  out->miss_policy = *read;
  return true;
}

// Sets out->math, where its a and b are known: no other dtypes' kernels differ.
inline void read_math(const lathe_math& wanted, ProblemClass* out) {
  if (__builtin_expect(raw(wanted) == LATHE_MATH_STRICT, 1)) return;
  const auto math = static_cast<Math>(raw(wanted));
  if (names_dtypes(math, out->a, out->b)) out->math = math;
}

// Sets out->key.problem.dependent_launch.
inline bool read_dependent_launch(const lathe_dependent_launch& wanted, const RequestContext& context,
                                  Request* out, absl::Status* why) {
  if (__builtin_expect(raw(wanted) == LATHE_DEPENDENT_LAUNCH_OFF, 1)) return true;
  if (raw(wanted) > LATHE_DEPENDENT_LAUNCH_CONSTANT_B)
    return refuse(why,
                  absl::InvalidArgumentError(absl::StrCat("dependent_launch ", raw(wanted), " is unknown")));
  if (context.dependent_launch) out->key.problem.dependent_launch = static_cast<DependentLaunch>(wanted);
  return true;
}

// True when the operand's own header is in order: size, no chain, no reserved field, a known layout. One
// branch.
inline bool plain(const lathe_operand& o) {
  return ((o.struct_size ^ sizeof(lathe_operand)) | reinterpret_cast<uintptr_t>(o.next) |
          reinterpret_cast<uintptr_t>(o.scale) | reinterpret_cast<uintptr_t>(o.zero_point) | o.packed_layout |
          o.reserved | (raw(o.layout) & ~1u)) == 0;
}
static_assert(LATHE_ROW_MAJOR == 0 && LATHE_COLUMN_MAJOR == 1, "plain() tests the layout as a bit");
// The same of a matmul's A or B, whose scale and zero point are read apart.
inline bool plain_factor(const lathe_operand& o) {
  return ((o.struct_size ^ sizeof(lathe_operand)) | reinterpret_cast<uintptr_t>(o.next) | o.packed_layout |
          o.reserved | (raw(o.layout) & ~1u)) == 0;
}
// The same of B, which may be packed.
inline bool plain_or_packed_factor(const lathe_operand& o) {
  return ((o.struct_size ^ sizeof(lathe_operand)) | reinterpret_cast<uintptr_t>(o.next) | o.reserved |
          (raw(o.layout) & ~1u)) == 0;
}
// Why not plain().
[[gnu::cold]] absl::Status explain_operand(absl::string_view name, const lathe_operand& o);

// The largest alignment (core/problem.h) that every operand keeps: its base (where pointers are known), the
// distance of its rows and of its matrices.
class OperandAlignment {
 public:
  explicit OperandAlignment(bool with_pointers) : with_pointers_(with_pointers) {}

  void add(const Region& r, DType element) {
    const uint64_t bits = (with_pointers_ ? r.base : 0) | static_cast<uint64_t>(r.pitch) |
                          (r.count > 1 ? static_cast<uint64_t>(r.stride) : 0);
    all_ |= bits;
    below_ |= bits & (size_of(element) - 1);
  }
  // A distance between elements, in bytes.
  void add_distance(int64_t bytes) { all_ |= static_cast<uint64_t>(bytes); }
  // An array of elements, of which no more than the element's own alignment is asked.
  void add_elements(const void* data, DType element) {
    if (with_pointers_) below_ |= reinterpret_cast<uintptr_t>(data) & (size_of(element) - 1);
  }
  Alignment largest() const {
    if (below_ != 0) return Alignment::kByte;
    return (all_ & 15) == 0 ? Alignment::k16 : Alignment::kElement;
  }

 private:
  bool with_pointers_;
  uint64_t all_ = 0, below_ = 0;
};

// Makes an empty product of A and B one over the zero that GPUs' drivers have: no kernel need know of K = 0.
void become_zero_product(Request* out);
void become_zero_product(ProblemClass* c);
inline void align_product(const Request& request, const Region& a, const Region& b,
                          OperandAlignment* alignment) {
  const ProblemClass& c = request.key.problem;
  if (request.zero_product) {
    // Rows that lie on each other are for kernels that load one element after the other.
    alignment->add_distance(static_cast<int64_t>(size_of(c.a)));
    return;
  }
  alignment->add(a, c.a);
  alignment->add(b, c.b);
}

inline bool is_float(const lathe_dtype& t) { return raw(t) - LATHE_F32 <= LATHE_BF16 - LATHE_F32; }
static_assert(LATHE_F32 == 1 && LATHE_F16 == 2 && LATHE_BF16 == 3, "is_float() tests a range");
// What a matmul multiplies: a float, a signed byte or fp8.
inline bool is_factor(const lathe_dtype& t) {
  return is_float(t) || raw(t) - LATHE_I8 <= LATHE_F8_E5M2_FNUZ - LATHE_I8;
}
static_assert(LATHE_I8 == 6 && LATHE_F8_E4M3 == 7 && LATHE_F8_E5M2 == 8 && LATHE_F8_E4M3_FNUZ == 9 &&
                  LATHE_F8_E5M2_FNUZ == 10,
              "is_factor() tests a range");
inline constexpr char kFloatNames[] = "f32, f16, bf16";
inline constexpr char kFactorNames[] = "f32, f16, bf16, i8, f8e4m3, f8e5m2, f8e4m3fnuz, f8e5m2fnuz";
inline bool is_blocks(const lathe_dtype& t) { return raw(t) == LATHE_Q4_0; }
// Whether elements of A and B are multiplied as they are: those of one dtype, and on the CPU what it widens.
inline bool are_multiplied(const lathe_dtype& a, const lathe_dtype& b, bool is_cpu) {
  return raw(a) == raw(b) || (is_cpu && widens_b(static_cast<DType>(raw(a)), static_cast<DType>(raw(b))));
}
// Why not, of two dtypes that are factors.
[[gnu::cold]] absl::Status explain_factors(const lathe_dtype& a, const lathe_dtype& b);
// Why `t` is none of the `allowed` ones: other dtypes of lathe.h are UNSUPPORTED, the rest INVALID_ARGUMENT.
[[gnu::cold]] absl::Status explain_dtype(absl::string_view name, const lathe_dtype& t,
                                         absl::string_view allowed);
// For messages: what is no dtype shows as "none".
[[gnu::cold]] DType known_dtype(const lathe_dtype& t);

// How messages name a matrix operand and its dimensions.
struct OperandName {
  const char* name;
  const char* leading;  // its leading dimension
  const char* rows;
  const char* columns;
};
inline constexpr OperandName kOperandA = {"a", "lda", "m", "k"}, kOperandB = {"b", "ldb", "k", "n"};

struct Matrices {
  int64_t count, rows, columns;
};
// Distances in elements, between the starts of two lines and of two matrices.
struct Distances {
  int64_t leading, batch;
};
// Where to store an operand's distances and region.
struct Placement {
  int64_t *leading, *stride;
  Region* region;
};

// The only reader of an operand's distances. A distance between fewer than two lines or matrices may have any
// value (PyTorch's strides of dimensions of extent 1), so it is replaced and affects neither class nor
// launch. The replacement is a multiple of 16 bytes, so a single line never lowers the alignment class.
inline Distances distances_of(const lathe_operand& o, const Matrices& lines) {
  constexpr int64_t kStep = 16;  // elements; each has at least one byte
  const int64_t given = o.leading_dimension == 0 ? lines.columns : o.leading_dimension;
  return {lines.rows > 1 ? given : (lines.columns + kStep - 1) & -kStep,
          lines.count > 1 ? o.batch_stride : 0};
}
// Why distances are refused. `width` is the number of elements in a line.
[[gnu::cold]] absl::Status explain_distance(const OperandName& name, lathe_layout layout,
                                            const Distances& apart, int64_t width);
// Each row of `lines` is contiguous; `size` is in bytes per element. False if lines overlap, a distance is
// negative or the byte count overflows.
[[gnu::always_inline]] inline bool place_lines(const lathe_operand& o, const Matrices& lines,
                                               const Distances& apart, int64_t size, const Placement& out) {
  *out.leading = apart.leading;
  *out.stride = apart.batch;
  Region& r = *out.region;
  r.base = reinterpret_cast<uintptr_t>(o.data);
  r.lines = lines.rows;
  r.count = lines.count;
  return apart.leading >= lines.columns && apart.batch >= 0 &&
         !__builtin_mul_overflow(lines.columns, size, &r.width) &&
         !__builtin_mul_overflow(apart.leading, size, &r.pitch) &&
         !__builtin_mul_overflow(apart.batch, size, &r.stride) && measure(&r);
}
// Checks the distances and computes where the elements lie.
// Inlined, as the checks of request_matmul.cc that every call makes: a cached call 98 -> 90 ns.
[[gnu::always_inline]] inline bool place_operand(const OperandName& name, const lathe_operand& o,
                                                 Matrices shape, const Placement& out, absl::Status* why) {
  if (o.layout == LATHE_COLUMN_MAJOR) std::swap(shape.rows, shape.columns);
  const Distances apart = distances_of(o, shape);
  const auto size = static_cast<int64_t>(size_of(static_cast<DType>(o.dtype)));
  if (__builtin_expect(place_lines(o, shape, apart, size, out), 1)) return true;
  return refuse(why, explain_distance(name, o.layout, apart, shape.columns));
}
// Why the lines of an output overlap each other. `placed` is where place_operand() put it.
[[gnu::cold]] absl::Status explain_overlap(const OperandName& name, const Placement& placed);
// Why sizes are not in [0, kMaxDim].
[[gnu::cold]] absl::Status explain_dims(const Dims& dims);

// Returns `cause` with the request in front of its message.
[[gnu::cold]] absl::Status in_request(absl::string_view request, absl::string_view device,
                                      const absl::Status& cause);

}  // namespace lathe
