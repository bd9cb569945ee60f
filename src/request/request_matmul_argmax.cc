#include <string>

#include "absl/strings/str_cat.h"
#include "request/request_indices.h"

namespace lathe {
namespace {

absl::Status invalid(const std::string& cause) { return absl::InvalidArgumentError(cause); }

// Why no class has the descriptor's dtypes and enums.
[[gnu::cold]] absl::Status explain_enums(const lathe_matmul_argmax_desc& d, Devices devices) {
  absl::Status why;
  if (!check_known("a", d.a.dtype, &why) || !check_known("b", d.b.dtype, &why) ||
      !check_known("logits", d.logits_dtype, &why))
    return why;
  if (d.bias != nullptr && !is_float(d.bias_dtype)) return explain_dtype("bias", d.bias_dtype, kFloats);
  if (!is_index(d.index_dtype)) return explain_index_dtype(d.index_dtype);
  ProblemClass c;
  c.op = Op::kMatmulArgmax;
  c.a = to_dtype(d.a.dtype);
  c.b = to_dtype(d.b.dtype);
  c.d = to_dtype(d.index_dtype);
  c.logits = to_dtype(d.logits_dtype);
  c.trans_b = d.b.layout == LATHE_COLUMN_MAJOR;
  if (why = explain_class(c, devices); !why.ok()) return why;
  if (raw(d.determinism) > LATHE_DETERMINISM_BATCH_INVARIANT) {
    return invalid(absl::StrCat("determinism ", raw(d.determinism), " is unknown"));
  }
  return invalid(absl::StrCat("math ", raw(d.math), " is unknown"));
}

bool read_class(const lathe_matmul_argmax_desc& d, Devices devices, ProblemClass* out, absl::Status* why) {
  const Product* product = find_product(Op::kMatmulArgmax, d.a.dtype, d.b.dtype, devices);
  // The layout of a packed B has no effect.
  const bool is_column_major = d.b.layout == LATHE_COLUMN_MAJOR || d.b.packed_layout != 0;
  if (product == nullptr || !has_layout(*product, is_column_major) || !is_float(d.logits_dtype) ||
      (d.bias != nullptr && !is_float(d.bias_dtype)) || !is_index(d.index_dtype) ||
      raw(d.determinism) > LATHE_DETERMINISM_BATCH_INVARIANT || raw(d.math) > LATHE_MATH_BF16) {
    return refuse(why, explain_enums(d, devices));
  }
  out->op = Op::kMatmulArgmax;
  out->a = product->a;
  out->b = product->b;
  out->d = to_dtype(d.index_dtype);
  out->logits = to_dtype(d.logits_dtype);
  if (d.bias != nullptr) out->bias = to_dtype(d.bias_dtype);
  out->trans_a = d.a.layout == LATHE_COLUMN_MAJOR;
  out->trans_b = d.b.layout == LATHE_COLUMN_MAJOR;
  if (d.b.packed_layout != 0 && !read_packed(d.b, d.n, devices == Devices::kCpu, out, why)) return false;
  out->determinism = static_cast<Determinism>(d.determinism);
  out->wants_values = d.values != nullptr;
  read_math(d.math, out);
  return true;
}

bool read_dims(const lathe_matmul_argmax_desc& d, Purpose purpose, Request* out, absl::Status* why) {
  Dims& dims = out->dims;
  dims = {purpose == Purpose::kWarm ? 1 : d.m, d.n, d.k, 1};
  if (static_cast<uint64_t>(dims.m | dims.n | dims.k) > uint64_t{kMaxDim}) {
    return refuse(why, explain_dims(dims));
  }
  if (!check_index_range(d.index_dtype, d.index_offset, dims.m, dims.n, why)) return false;
  const Bucket bucket = m_bucket(dims.m);
  ProblemClass& c = out->key.problem;
  c.n = dims.n;
  c.k = dims.k;
  c.m_lo = bucket.lo;
  c.m_hi = bucket.hi;
  out->nothing_to_do = dims.m == 0;
  out->empty_product = dims.k == 0;
  return true;
}

// The bias is set only if the class has one.
struct Regions {
  Region a, b, bias;
};

bool place_operands(const lathe_matmul_argmax_desc& d, Request* out, Regions* r, absl::Status* why) {
  const auto [m, n, k, batch] = out->dims;
  if (d.a.batch_stride != 0) return refuse(why, invalid("a: batch_stride must be 0: this op has no batch"));
  if (d.b.batch_stride != 0) return refuse(why, invalid("b: batch_stride must be 0: this op has no batch"));
  ArgumentBlock& args = out->args;
  const Placement b = {&args.ldb, &args.stride_b, &r->b};
  if (!place_operand(kOperandA, d.a, {batch, m, k}, {&args.lda, &args.stride_a, &r->a}, why)) return false;
  if (d.b.packed_layout != 0) {
    if (!place_packed(d.b, out->dims, out->key.problem, b, why)) return false;
  } else if (__builtin_expect(is_blocks(out->key.problem.b), 0)) {
    if (!place_blocks(d.b, out->dims, out->key.problem.b, b, why)) return false;
  } else if (!place_operand(kOperandB, d.b, {batch, k, n}, b, why)) {
    return false;
  }
  const DType bias = out->key.problem.bias;
  if (bias != DType::kNone) r->bias = line_at(d.bias, n * static_cast<int64_t>(size_of(bias)));
  return true;
}

void align_class(const lathe_matmul_argmax_desc& d, const Regions& r, bool with_pointers, Request* out) {
  ProblemClass& c = out->key.problem;
  OperandAlignment alignment(with_pointers);
  align_product(*out, r.a, r.b, &alignment);
  if (c.bias != DType::kNone) alignment.add(r.bias, c.bias);
  align_outputs(d, c.d, &alignment);
  c = with_alignment(c, alignment.largest(), /*is_cpu=*/false);
}

bool check_pointers(const lathe_matmul_argmax_desc& d, const Request& request, const Regions& r,
                    absl::Status* why) {
  if (request.reads_operands()) {
    if (d.a.data == nullptr) return refuse(why, invalid("a is NULL"));
    if (d.b.data == nullptr) return refuse(why, invalid("b is NULL"));
  }
  if (request.key.problem.bias == DType::kNone)
    return check_outputs(d.indices, d.values, request, {{"a", &r.a}, {"b", &r.b}}, why);
  return check_outputs(d.indices, d.values, request, {{"a", &r.a}, {"b", &r.b}, {"bias", &r.bias}}, why);
}

bool read(const lathe_matmul_argmax_desc& d, Purpose purpose, const RequestContext& context, void* stream,
          Request* out, absl::Status* why) {
  if (!plain(d.a)) return refuse(why, explain_operand("a", d.a));
  if (!plain_or_packed(d.b)) return refuse(why, explain_operand("b", d.b));
  if (d.next != nullptr && !read_chain(d.next, out, why)) return false;
  if (!read_policy(d.miss_policy, context, out, why)) return false;
  if (!read_dependent_launch(d.dependent_launch, context, out, why)) return false;
  if (!read_class(d, context.devices(), &out->key.problem, why)) return false;
  if (!read_dims(d, purpose, out, why)) return false;
  Regions regions;
  if (!place_operands(d, out, &regions, why)) return false;
  if (!context.is_cpu) {
    if (out->empty_product) become_zero_product(out);
    align_class(d, regions, purpose == Purpose::kRun, out);
  }
  if (purpose != Purpose::kRun) return true;

  if (context.is_cpu && stream != nullptr)
    return refuse(why, invalid("the stream is not NULL; the CPU has no streams"));
  out->stream = stream;
  if (out->nothing_to_do) return true;
  if (!check_pointers(d, *out, regions, why)) return false;
  ArgumentBlock& args = out->args;
  if (out->reads_operands()) {
    args.a = d.a.data;
    args.b = d.b.data;
  }
  args.bias = const_cast<void*>(d.bias);
  args.k = static_cast<int32_t>(out->dims.k);
  args.alpha = 1.0f;
  set_output_arguments(d, out);
  return true;
}

// For messages. Unknown enum values show as "none".
[[gnu::cold]] std::string describe(const lathe_matmul_argmax_desc& d) {
  ProblemClass c;
  c.op = Op::kMatmulArgmax;
  c.a = known_dtype(d.a.dtype);
  c.b = known_dtype(d.b.dtype);
  c.d = known_dtype(d.index_dtype);
  c.logits = known_dtype(d.logits_dtype);
  c.trans_a = raw(d.a.layout) == LATHE_COLUMN_MAJOR;
  c.trans_b = raw(d.b.layout) == LATHE_COLUMN_MAJOR;
  c.wants_values = d.values != nullptr;
  c.packed_b = d.b.packed_layout != 0;
  return describe(c, Dims{d.m, d.n, d.k, 1});
}

}  // namespace

absl::Status read_matmul_argmax(const lathe_matmul_argmax_desc* desc, Purpose purpose,
                                const RequestContext& context, void* stream, Request* out) {
  if (desc == nullptr) return invalid("matmul_argmax: desc is NULL");
  if (desc->struct_size != sizeof(lathe_matmul_argmax_desc)) {
    return invalid(absl::StrCat("matmul_argmax: lathe_matmul_argmax_desc: struct_size ", desc->struct_size,
                                " is not ", sizeof(lathe_matmul_argmax_desc)));
  }
  absl::Status why;
  if (__builtin_expect(!read(*desc, purpose, context, stream, out, &why), 0)) {
    return in_request(describe(*desc), context.device, why);
  }
  return absl::OkStatus();
}

}  // namespace lathe
