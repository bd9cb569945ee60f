// One checked request: what the C descriptors say, as dimensions, problem class and argument block.
//
// Checking is one pass that allocates nothing on success. A failure's message names the request and the
// cause: "matmul f32 a=n b=t m=7 n=4096 k=33 batch=1 on cpu: lda 31 < k 33".
#pragma once

#include "absl/strings/string_view.h"
#include "api/dispatch_table.h"
#include "base/status.h"
#include "core/args.h"
#include "core/problem.h"
#include "lathe/lathe.h"

namespace lathe {

// What a descriptor is read for.
enum class Purpose {
  kRun,   // pointers are checked
  kPlan,  // data pointers are not read; NULL still means "none" for bias, residual and values
  kWarm,  // as kPlan, and M (rows) is ignored
};

struct RequestContext {
  absl::string_view device;   // for messages
  bool is_cpu = true;         // the stream must then be NULL
  bool block_on_miss = true;  // the context's policy
};

struct Request {
  DispatchKey key;
  Dims dims;
  ArgumentBlock args;  // splits and k_chunk unset
  // No element of the output exists, or the output is the epilogue of an empty product: no kernel is needed.
  bool nothing_to_do = false;
  bool empty_product = false;
  bool needs_no_kernel() const { return nothing_to_do || empty_product; }
  bool block_on_miss = true;
  void* stream = nullptr;
  void* workspace = nullptr;  // the caller's
  size_t workspace_bytes = 0;
};

absl::Status read_matmul(const lathe_matmul_desc* desc, Purpose purpose, const RequestContext& context,
                         void* stream, Request* out);
absl::Status read_argmax(const lathe_argmax_desc* desc, Purpose purpose, const RequestContext& context,
                         void* stream, Request* out);

// "matmul f32 ... on cpu"
std::string describe(const Request& request, absl::string_view device);

// ---- Pieces shared by the two readers (request.cc)
// -----------------------------------------------------------

// The largest dimension: argument blocks carry 32-bit sizes.
constexpr int64_t kMaxDim = INT32_MAX;

// Walks a descriptor's extension chain. The error is the bare cause.
absl::Status read_chain(const lathe_chain* chain, Request* out);

// True when the operand's own header is in order: size, no chain, no reserved field, a known layout.
inline bool plain(const lathe_operand& o) {
  return o.struct_size == sizeof(lathe_operand) && o.next == nullptr && o.scale == nullptr &&
         o.zero_point == nullptr && (o.packed_layout | o.reserved) == 0 &&
         static_cast<uint32_t>(o.layout) <= LATHE_COLUMN_MAJOR;
}
// Why not plain(). The error is the bare cause.
[[gnu::cold]] absl::Status explain_operand(absl::string_view name, const lathe_operand& o);

inline bool is_float(lathe_dtype t) { return t == LATHE_F32 || t == LATHE_F16 || t == LATHE_BF16; }
// Why `t` is no float type: reserved ones are UNSUPPORTED, others INVALID_ARGUMENT.
[[gnu::cold]] absl::Status explain_dtype(absl::string_view name, lathe_dtype t);

// Returns `cause` with the request in front of its message.
[[gnu::cold]] absl::Status in_request(absl::string_view request, absl::string_view device,
                                      const absl::Status& cause);

}  // namespace lathe
