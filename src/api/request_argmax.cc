#include <string>

#include "absl/strings/str_cat.h"
#include "api/options.h"
#include "api/overlap.h"
#include "api/request.h"

namespace lathe {
namespace {

absl::Status invalid(const std::string& cause) { return absl::InvalidArgumentError(cause); }

absl::Status read_class(const lathe_argmax_desc& d, ProblemClass* out) {
  if (!is_float(d.x.dtype)) return explain_dtype("x", d.x.dtype);
  if (d.x.layout != LATHE_ROW_MAJOR) return absl::UnimplementedError("x: only ROW_MAJOR is supported");
  if (d.index_dtype != LATHE_I32 && d.index_dtype != LATHE_I64) {
    return invalid(absl::StrCat("index_dtype ", static_cast<int>(d.index_dtype), " is neither i32 nor i64"));
  }
  if (static_cast<uint32_t>(d.determinism) > LATHE_DETERMINISM_BATCH_INVARIANT) {
    return invalid(absl::StrCat("determinism ", static_cast<int>(d.determinism), " is unknown"));
  }
  out->op = Op::kArgmax;
  out->a = static_cast<DType>(d.x.dtype);
  out->d = static_cast<DType>(d.index_dtype);
  out->determinism = static_cast<Determinism>(d.determinism);
  out->wants_values = d.values != nullptr;
  return absl::OkStatus();
}

absl::Status read_dims(const lathe_argmax_desc& d, Purpose purpose, Dims* out) {
  constexpr uint64_t kMax = kMaxDim;
  const int64_t rows = purpose == Purpose::kWarm ? 1 : d.rows;
  if (static_cast<uint64_t>(rows) > kMax) {
    return invalid(absl::StrCat("rows ", rows, rows < 0 ? " < 0" : absl::StrCat(" > ", kMaxDim)));
  }
  if (static_cast<uint64_t>(d.n) > kMax) {
    return invalid(absl::StrCat("n ", d.n, d.n < 0 ? " < 0" : absl::StrCat(" > ", kMaxDim)));
  }
  if (rows > 0 && d.n == 0) return invalid("n 0: an empty row has no maximum");
  const int64_t last = d.n > 0 ? d.n - 1 : 0;
  int64_t highest = 0;
  if (__builtin_add_overflow(d.index_offset, last, &highest) ||
      (d.index_dtype == LATHE_I32 && (highest > INT32_MAX || d.index_offset < INT32_MIN))) {
    return invalid(absl::StrCat("index_offset ", d.index_offset, " + n does not fit the index_dtype"));
  }
  *out = {rows, d.n, 0, 1};
  return absl::OkStatus();
}

absl::Status place_input(const lathe_argmax_desc& d, const Dims& dims, int64_t* leading, Region* out) {
  *leading = d.x.leading_dimension == 0 ? dims.n : d.x.leading_dimension;
  if (d.x.leading_dimension < 0) return invalid(absl::StrCat("ldx ", *leading, " < 0"));
  if (*leading < dims.n) return invalid(absl::StrCat("ldx ", *leading, " < n ", dims.n));
  if (d.x.batch_stride != 0) return invalid("x: batch_stride is unused and must be 0");
  const auto size = static_cast<int64_t>(size_of(static_cast<DType>(d.x.dtype)));
  out->base = reinterpret_cast<uintptr_t>(d.x.data);
  out->width = dims.n * size;
  out->lines = dims.m;
  if (__builtin_mul_overflow(*leading, size, &out->pitch) || !measure(out)) {
    return invalid("x: spans more than 2^63 - 1 bytes");
  }
  return absl::OkStatus();
}

Region vector_at(const void* data, int64_t bytes) {
  Region r;
  r.base = reinterpret_cast<uintptr_t>(data);
  r.width = r.bytes = bytes;
  r.lines = 1;
  return r;
}

absl::Status check_pointers(const lathe_argmax_desc& d, const Request& request, const Region& x) {
  if (d.x.data == nullptr) return invalid("x is NULL");
  if (d.indices == nullptr) return invalid("indices is NULL");
  const int64_t rows = request.dims.m;
  const Region indices = vector_at(d.indices, rows * static_cast<int64_t>(size_of(request.key.problem.d)));
  if (!known_disjoint(indices, x)) return invalid("indices overlaps x");
  if (d.values == nullptr) return absl::OkStatus();
  const Region values = vector_at(d.values, rows * static_cast<int64_t>(sizeof(float)));
  if (!known_disjoint(values, x)) return invalid("values overlaps x");
  if (!known_disjoint(values, indices)) return invalid("values overlaps indices");
  return absl::OkStatus();
}

// The error is the bare cause.
absl::Status read(const lathe_argmax_desc& d, Purpose purpose, const RequestContext& context, void* stream,
                  Request* out) {
  if (!plain(d.x)) return explain_operand("x", d.x);
  if (d.next != nullptr) LATHE_RETURN_IF_ERROR(read_chain(d.next, out));
  out->block_on_miss = context.block_on_miss;
  if (d.miss_policy != LATHE_MISS_DEFAULT) {
    LATHE_ASSIGN_OR_RETURN(out->block_on_miss, read_miss_policy(d.miss_policy, context.block_on_miss));
  }
  ProblemClass& c = out->key.problem;
  LATHE_RETURN_IF_ERROR(read_class(d, &c));
  LATHE_RETURN_IF_ERROR(read_dims(d, purpose, &out->dims));
  const Bucket bucket = row_bucket(out->dims.n);
  c.row_lo = bucket.lo;
  c.row_hi = bucket.hi;
  Region x;
  LATHE_RETURN_IF_ERROR(place_input(d, out->dims, &out->args.lda, &x));
  out->nothing_to_do = out->dims.m == 0;
  if (purpose != Purpose::kRun) return absl::OkStatus();

  if (context.is_cpu && stream != nullptr) return invalid("the stream is not NULL, as it must be on the CPU");
  out->stream = stream;
  if (out->nothing_to_do) return absl::OkStatus();
  LATHE_RETURN_IF_ERROR(check_pointers(d, *out, x));
  ArgumentBlock& args = out->args;
  args.a = d.x.data;
  args.d = d.indices;
  args.values = d.values;
  args.index_offset = d.index_offset;
  args.m = static_cast<int32_t>(out->dims.m);
  args.n = static_cast<int32_t>(out->dims.n);
  args.batch = 1;
  return absl::OkStatus();
}

// For messages: unknown enum values show as "none".
[[gnu::cold]] std::string describe(const lathe_argmax_desc& d) {
  const auto known = [](lathe_dtype t) {
    return static_cast<uint32_t>(t) <= LATHE_I64 ? static_cast<DType>(t) : DType::kNone;
  };
  ProblemClass c;
  c.op = Op::kArgmax;
  c.a = known(d.x.dtype);
  c.d = known(d.index_dtype);
  c.wants_values = d.values != nullptr;
  return describe(c, Dims{d.rows, d.n, 0, 1});
}

}  // namespace

absl::Status read_argmax(const lathe_argmax_desc* desc, Purpose purpose, const RequestContext& context,
                         void* stream, Request* out) {
  if (desc == nullptr) return invalid("argmax: desc is NULL");
  if (desc->struct_size != sizeof(lathe_argmax_desc)) {
    return invalid(absl::StrCat("argmax: lathe_argmax_desc: struct_size ", desc->struct_size, " is not ",
                                sizeof(lathe_argmax_desc)));
  }
  absl::Status status = read(*desc, purpose, context, stream, out);
  if (__builtin_expect(!status.ok(), 0)) return in_request(describe(*desc), context.device, status);
  return status;
}

}  // namespace lathe
