// Turns a C descriptor into a checked request: its sizes, problem class and argument block.
//
// A check is one pass that allocates nothing on success. An error message names the request and the cause:
// "matmul f32 a=n b=t m=7 n=4096 k=33 batch=1 on cpu: lda 31 < k 33".
#pragma once

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "core/args.h"
#include "core/block_scaled.h"
#include "core/problem.h"
#include "core/products.h"
#include "lathe/lathe.h"
#include "options/options.h"
#include "options/raw_enum.h"
#include "request/dispatch_key.h"
#include "request/overlap.h"

namespace lathe {

// Why a descriptor is read.
enum class Purpose {
  kRun,   // pointers are checked
  kPlan,  // data pointers are not read; NULL still means "none" for bias, residual and values
  kWarm,  // as kPlan, and M (rows) is ignored
};

struct RequestContext {
  absl::string_view device;                     // for messages
  bool is_cpu = true;                           // true: the stream must be NULL
  MissPolicy miss_policy = MissPolicy::kBlock;  // the context's
  bool dependent_launch = false;                // the device supports it
  bool is_described = false;  // the device has facts but no driver: pointers are not followed

  Devices devices() const { return is_cpu ? Devices::kCpu : Devices::kGpus; }
};

// Bytes of each operand's memory, from its first byte to one past its last; 0 if there is no such operand.
// argmax uses a, d and values for X, indices and values.
struct Spans {
  int64_t a, b, c, d, bias, residual, values;
};

// Operands with block scales. On the CPU the launch decodes A, if it has scales, and rearranges those of B.
struct ScaledProduct {
  ScaledOperand a, b;  // a: may not exist
};

struct Request {
  DispatchKey key;
  Dims dims;
  ArgumentBlock args;  // splits and k_chunk unset
  // Neither needs a kernel. nothing_to_do: the output has no elements. empty_product: K is 0 on the CPU, so
  // the output is the epilogue of zeros.
  bool nothing_to_do = false;
  bool empty_product = false;
  // K is 0 on a GPU. The request becomes a product with K = 1 whose A and B both point to one zero; `dims` and
  // `key` say K = 1.
  bool zero_product = false;
  bool needs_no_kernel() const { return nothing_to_do || empty_product; }
  bool reads_operands() const { return !empty_product && !zero_product; }  // the caller's A and B
  bool m_is_read = false;  // matmul on the CPU: M is what m_device held
  MissPolicy miss_policy = MissPolicy::kBlock;
  void* stream = nullptr;
  void* workspace = nullptr;  // the caller's
  size_t workspace_bytes = 0;
  bool workspace_is_zeroed = false;
  Spans spans;                             // of a matmul; of an argmax that will run
  const lathe_program* program = nullptr;  // elementwise: the caller's; valid during the call
  // matmul. GPUs: key and args say it all. CPU: key and args are those of A decoded to f32 and B in blocks. args.a
  // points to the encoded A, args.b to the blocks, and args.scale_b and the scales' global factors are not set.
  std::optional<ScaledProduct> scaled;
};

// For each op: read_matmul() and so on, and the overload read_request().
#define LATHE_READER(op, value, name, rows, traits)                                                         \
  absl::Status read_##name(const lathe_##name##_desc* desc, Purpose purpose, const RequestContext& context, \
                           void* stream, Request* out);                                                     \
  inline absl::Status read_request(const lathe_##name##_desc* desc, Purpose purpose,                        \
                                   const RequestContext& context, void* stream, Request* out) {             \
    return read_##name(desc, purpose, context, stream, out);                                                \
  }
LATHE_OPS(LATHE_READER)
#undef LATHE_READER
// As read_matmul, for a product that is a part of a larger request: the message of an error lacks the request.
absl::Status read_member_product(const lathe_matmul_desc& desc, Purpose purpose,
                                 const RequestContext& context, Request* out);

// "matmul f32 ..." and "matmul f32 ... on cpu", with the sizes that the caller gave.
std::string describe(const Request& request);
std::string describe(const Request& request, absl::string_view device);

// ---- Parts that the readers share (request.cc)

// The largest dimension. Argument blocks carry 32-bit sizes.
constexpr int64_t kMaxDim = INT32_MAX;

// The checks return a bool and write the reason to `why`, without the request. So the path of a hit creates
// and copies no absl::Status.
[[gnu::cold]] bool refuse(absl::Status* why, absl::Status cause);

// Reads a descriptor's extension chain.
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

// Sets out->math if it changes anything for the dtypes of `out`. Requires out->a and out->b.
inline void read_math(const lathe_math& wanted, ProblemClass* out) {
  if (__builtin_expect(raw(wanted) == LATHE_MATH_STRICT, 1)) return;
  const auto math = static_cast<Math>(raw(wanted));
  if (takes_math(math, out->a, out->b)) out->math = math;
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

// Whether the operand's header is valid: size, no chain, no reserved field, a known layout. One branch.
inline bool plain(const lathe_operand& o) {
  return ((o.struct_size ^ sizeof(lathe_operand)) | reinterpret_cast<uintptr_t>(o.next) |
          reinterpret_cast<uintptr_t>(o.scale) | reinterpret_cast<uintptr_t>(o.zero_point) | o.packed_layout |
          o.reserved | (raw(o.layout) & ~1u)) == 0;
}
// The same for a matmul_argmax's B, which may also be packed.
inline bool plain_or_packed(const lathe_operand& o) {
  return ((o.struct_size ^ sizeof(lathe_operand)) | reinterpret_cast<uintptr_t>(o.next) |
          reinterpret_cast<uintptr_t>(o.scale) | reinterpret_cast<uintptr_t>(o.zero_point) | o.reserved |
          (raw(o.layout) & ~1u)) == 0;
}
static_assert(LATHE_ROW_MAJOR == 0 && LATHE_COLUMN_MAJOR == 1, "plain() tests the layout as a bit");
// The same for a matmul's A, whose scale and zero point are read by read_quantisation().
inline bool plain_factor(const lathe_operand& o) {
  return ((o.struct_size ^ sizeof(lathe_operand)) | reinterpret_cast<uintptr_t>(o.next) | o.packed_layout |
          o.reserved | (raw(o.layout) & ~1u)) == 0;
}
// The same for a matmul's B, which may also be packed.
inline bool plain_or_packed_factor(const lathe_operand& o) {
  return ((o.struct_size ^ sizeof(lathe_operand)) | reinterpret_cast<uintptr_t>(o.next) | o.reserved |
          (raw(o.layout) & ~1u)) == 0;
}
// Why plain() is false.
[[gnu::cold]] absl::Status explain_operand(absl::string_view name, const lathe_operand& o);

// Collects the largest alignment (core/problem.h) of all operands: of their base addresses (if pointers are
// known), row strides and batch strides.
class OperandAlignment {
 public:
  explicit OperandAlignment(bool with_pointers) : with_pointers_(with_pointers) {}

  void add(const Region& r, DType element) {
    const uint64_t bits = (with_pointers_ ? r.base : 0) | static_cast<uint64_t>(r.pitch) |
                          (r.count > 1 ? static_cast<uint64_t>(r.stride) : 0);
    all_ |= bits;
    below_ |= bits & (alignment_of(element) - 1);
  }
  // A distance in bytes between two elements.
  void add_distance(int64_t bytes) { all_ |= static_cast<uint64_t>(bytes); }
  // An array whose elements only need their own alignment.
  void add_elements(const void* data, DType element) {
    if (with_pointers_) below_ |= reinterpret_cast<uintptr_t>(data) & (alignment_of(element) - 1);
  }
  Alignment largest() const {
    if (below_ != 0) return Alignment::kByte;
    return (all_ & 15) == 0 ? Alignment::k16 : Alignment::kElement;
  }

 private:
  // A block is aligned like its scale: an f16, or a byte in formats whose blocks have an odd size.
  static constexpr size_t alignment_of(DType t) {
    if (!is_blocks(t)) return size_of(t);
    return size_of(t) % 2 == 0 ? 2 : 1;
  }

  bool with_pointers_;
  uint64_t all_ = 0, below_ = 0;
};

// Scales in device memory that kernels read one by one.
inline void align_scales(const Request& request, OperandAlignment* alignment) {
  if (!request.scaled || request.zero_product) return;
  for (const ScaledOperand* o : {&request.scaled->a, &request.scaled->b})
    if (o->exists()) alignment->add_elements(o->scales.data, o->scales.format->scale);
}

// Turns an empty product into one with K = 1 over the zero that GPU drivers hold, so no kernel handles K = 0.
void become_zero_product(Request* out);
void become_zero_product(ProblemClass* c);
inline void align_product(const Request& request, const Region& a, const Region& b,
                          OperandAlignment* alignment) {
  const ProblemClass& c = request.key.problem;
  if (request.zero_product) {
    // All rows are the same one, which only kernels that load single elements support.
    alignment->add_distance(static_cast<int64_t>(size_of(c.a)));
    return;
  }
  alignment->add(a, c.a);
  alignment->add(b, c.b);
}

// May be any value: the caller's bits.
inline DType to_dtype(const lathe_dtype& t) { return static_cast<DType>(raw(t)); }
inline bool is_float(const lathe_dtype& t) { return kFloats.has(to_dtype(t)); }
inline bool is_index(const lathe_dtype& t) { return kIndices.has(to_dtype(t)); }
// The row of core/products.h, null if these devices accept no such request.
inline const Product* find_product(Op op, const lathe_dtype& a, const lathe_dtype& b, Devices devices) {
  const Product* p = find_product(to_dtype(a), to_dtype(b));
  return p != nullptr && p->ops.has(op) && meet(p->requests, devices) ? p : nullptr;
}
// The rule of core/products.h that the class breaks, as a status.
[[gnu::cold]] absl::Status explain_class(const ProblemClass& c, Devices devices);
// Whether the operand's dtype is one of lathe.h. False sets `why`.
[[gnu::cold]] bool check_known(absl::string_view name, const lathe_dtype& t, absl::Status* why);
// Why `t` is not one of `allowed`. Other dtypes of lathe.h are UNSUPPORTED; the rest are INVALID_ARGUMENT.
[[gnu::cold]] absl::Status explain_dtype(absl::string_view name, const lathe_dtype& t, Set<DType> allowed);
// For messages: kNone if the value is unknown.
[[gnu::cold]] DType known_dtype(const lathe_dtype& t);

// The names of a matrix operand and of its dimensions in messages.
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
// Checks the distances and computes where the elements lie. Inlined because every call makes these checks.
[[gnu::always_inline]] inline bool place_operand(const OperandName& name, const lathe_operand& o,
                                                 Matrices shape, const Placement& out, absl::Status* why) {
  if (o.layout == LATHE_COLUMN_MAJOR) std::swap(shape.rows, shape.columns);
  const Distances apart = distances_of(o, shape);
  const auto size = static_cast<int64_t>(size_of(static_cast<DType>(o.dtype)));
  if (__builtin_expect(place_lines(o, shape, apart, size, out), 1)) return true;
  return refuse(why, explain_distance(name, o.layout, apart, shape.columns));
}
// The same for B in blocks along K. All its distances must be whole blocks.
[[gnu::cold]] bool place_blocks(const lathe_operand& b, const Dims& dims, DType dtype, const Placement& out,
                                absl::Status* why);
// Sets packed_b and trans_b of a packed B: COLUMN_MAJOR, in panels or column by column (core/packed.h).
bool read_packed(const lathe_operand& b, int64_t n, bool is_cpu, ProblemClass* out, absl::Status* why);
// The same as place_operand() for a packed B. In panels, each matrix of the batch is one line.
bool place_packed(const lathe_operand& b, const Dims& dims, const ProblemClass& c, const Placement& out,
                  absl::Status* why);
// Why the lines of an output overlap each other. `placed` is where place_operand() put it.
[[gnu::cold]] absl::Status explain_overlap(const OperandName& name, const Placement& placed);
// Why sizes are not in [0, kMaxDim].
[[gnu::cold]] absl::Status explain_dims(const Dims& dims);

// Returns `cause` with the request in front of its message.
[[gnu::cold]] absl::Status in_request(absl::string_view request, absl::string_view device,
                                      const absl::Status& cause);

}  // namespace lathe
