#include <string>

#include "absl/strings/str_cat.h"
#include "request/request_indices.h"

namespace lathe {
namespace {

absl::Status invalid(const std::string& cause) { return absl::InvalidArgumentError(cause); }

[[gnu::cold]] absl::Status explain_enums(const lathe_argmax_desc& d) {
  if (!is_float(d.x.dtype)) return explain_dtype("x", d.x.dtype, kFloats);
  if (raw(d.x.layout) != LATHE_ROW_MAJOR) return absl::UnimplementedError("x: only ROW_MAJOR is supported");
  if (!is_index(d.index_dtype)) return explain_index_dtype(d.index_dtype);
  return invalid(absl::StrCat("determinism ", raw(d.determinism), " is unknown"));
}

bool read_class(const lathe_argmax_desc& d, ProblemClass* out, absl::Status* why) {
  if (!is_float(d.x.dtype) || raw(d.x.layout) != LATHE_ROW_MAJOR || !is_index(d.index_dtype) ||
      raw(d.determinism) > LATHE_DETERMINISM_BATCH_INVARIANT) {
    return refuse(why, explain_enums(d));
  }
  out->op = Op::kArgmax;
  out->a = to_dtype(d.x.dtype);
  out->d = to_dtype(d.index_dtype);
  out->determinism = static_cast<Determinism>(d.determinism);
  out->wants_values = d.values != nullptr;
  return true;
}

[[gnu::cold]] absl::Status explain_dim(const char* name, int64_t value) {
  return invalid(absl::StrCat(name, " ", value, value < 0 ? " < 0" : absl::StrCat(" > ", kMaxDim)));
}

bool read_dims(const lathe_argmax_desc& d, Purpose purpose, Request* out, absl::Status* why) {
  const int64_t rows = purpose == Purpose::kWarm ? 1 : d.rows;
  if (static_cast<uint64_t>(rows) > uint64_t{kMaxDim}) return refuse(why, explain_dim("rows", rows));
  if (static_cast<uint64_t>(d.n) > uint64_t{kMaxDim}) return refuse(why, explain_dim("n", d.n));
  if (!check_index_range(d.index_dtype, d.index_offset, rows, d.n, why)) return false;
  out->dims = {rows, d.n, 0, 1};
  const Bucket bucket = row_bucket(d.n);
  out->key.problem.row_lo = bucket.lo;
  out->key.problem.row_hi = bucket.hi;
  out->nothing_to_do = rows == 0;
  return true;
}

bool place_input(const lathe_argmax_desc& d, Request* out, Region* x, absl::Status* why) {
  constexpr OperandName kX = {"x", "ldx", "rows", "n"};
  if (d.x.batch_stride != 0) return refuse(why, invalid("x: batch_stride must be 0: this op has no batch"));
  ArgumentBlock& args = out->args;
  return place_operand(kX, d.x, {1, out->dims.m, d.n}, {&args.lda, &args.stride_a, x}, why);
}

void align_class(const lathe_argmax_desc& d, const Region& x, bool with_pointers, Request* out) {
  ProblemClass& c = out->key.problem;
  OperandAlignment alignment(with_pointers);
  alignment.add(x, c.a);
  align_outputs(d, c.d, &alignment);
  c = with_alignment(c, alignment.largest(), /*is_cpu=*/false);
}

bool read(const lathe_argmax_desc& d, Purpose purpose, const RequestContext& context, void* stream,
          Request* out, absl::Status* why) {
  if (!plain(d.x)) return refuse(why, explain_operand("x", d.x));
  if (d.next != nullptr && !read_chain(d.next, out, why)) return false;
  if (!read_policy(d.miss_policy, context, out, why)) return false;
  if (!read_dependent_launch(d.dependent_launch, context, out, why)) return false;
  if (!read_class(d, &out->key.problem, why)) return false;
  if (out->key.problem.dependent_launch == DependentLaunch::kConstantB)
    out->key.problem.dependent_launch = DependentLaunch::kOn;
  if (!read_dims(d, purpose, out, why)) return false;
  Region x;
  if (!place_input(d, out, &x, why)) return false;
  if (!context.is_cpu) align_class(d, x, purpose == Purpose::kRun, out);
  if (purpose != Purpose::kRun) return true;

  if (context.is_cpu && stream != nullptr)
    return refuse(why, invalid("the stream is not NULL; the CPU has no streams"));
  out->stream = stream;
  if (out->nothing_to_do) return true;
  if (d.x.data == nullptr) return refuse(why, invalid("x is NULL"));
  if (!check_outputs(d.indices, d.values, *out, {{"x", &x}}, why)) return false;
  out->args.a = d.x.data;
  set_output_arguments(d, out);
  out->spans = {x.bytes, 0, 0, index_bytes(*out), 0, 0, d.values == nullptr ? 0 : value_bytes(*out)};
  return true;
}

// For messages. Unknown enum values show as "none".
[[gnu::cold]] std::string describe(const lathe_argmax_desc& d) {
  ProblemClass c;
  c.op = Op::kArgmax;
  c.a = known_dtype(d.x.dtype);
  c.d = known_dtype(d.index_dtype);
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
  absl::Status why;
  if (__builtin_expect(!read(*desc, purpose, context, stream, out, &why), 0)) {
    return in_request(describe(*desc), context.device, why);
  }
  return absl::OkStatus();
}

}  // namespace lathe
