#include <string>

#include "absl/strings/str_cat.h"
#include "api/request.h"
#include "core/packed.h"

namespace lathe {
namespace {

constexpr OperandName kC = {"c", "ldc", "m", "n"};
constexpr OperandName kD = {"d", "ldd", "m", "n"};
constexpr OperandName kResidual = {"residual", "ldr", "m", "n"};

// C, bias and residual only where the class has one.
struct Regions {
  Region a, b, c, d, bias, residual;
};

absl::Status invalid(const std::string& cause) { return absl::InvalidArgumentError(cause); }

bool headers_plain(const lathe_matmul_desc& d) {
  const lathe_epilogue& e = d.epilogue;
  const bool epilogue_plain =
      ((e.struct_size ^ sizeof(lathe_epilogue)) | reinterpret_cast<uintptr_t>(e.next) |
       reinterpret_cast<uintptr_t>(e.alpha_device) | reinterpret_cast<uintptr_t>(e.beta_device) |
       reinterpret_cast<uintptr_t>(d.m_device)) == 0;
  return epilogue_plain && plain(d.a) && plain_or_packed(d.b) && plain(d.c) && plain(d.d) &&
         plain(e.residual);
}

[[gnu::cold]] absl::Status explain_headers(const lathe_matmul_desc& d) {
  if (!plain(d.a)) return explain_operand("a", d.a);
  if (!plain_or_packed(d.b)) return explain_operand("b", d.b);
  if (!plain(d.c)) return explain_operand("c", d.c);
  if (!plain(d.d)) return explain_operand("d", d.d);
  if (d.m_device != nullptr) return absl::UnimplementedError("m_device is reserved");
  const lathe_epilogue& e = d.epilogue;
  if (e.struct_size != sizeof(lathe_epilogue)) {
    return invalid(absl::StrCat("epilogue: struct_size ", e.struct_size, " is not ", sizeof(lathe_epilogue)));
  }
  if (e.next != nullptr) return absl::UnimplementedError("epilogue: no chain element is known here");
  if (e.alpha_device != nullptr) return absl::UnimplementedError("epilogue: alpha_device is reserved");
  if (e.beta_device != nullptr) return absl::UnimplementedError("epilogue: beta_device is reserved");
  return explain_operand("residual", e.residual);
}

DType to_dtype(lathe_dtype t) { return static_cast<DType>(t); }

[[gnu::cold]] absl::Status column_major(const OperandName& name) {
  return absl::UnimplementedError(absl::StrCat(name.name, ": only ROW_MAJOR is supported"));
}

// An M by N operand of the epilogue.
bool check_row_operand(const OperandName& name, const lathe_operand& o, absl::Status* why) {
  if (!is_float(o.dtype)) return refuse(why, explain_dtype(name.name, o.dtype, kFloatNames));
  if (o.layout != LATHE_ROW_MAJOR) return refuse(why, column_major(name));
  return true;
}

[[gnu::cold]] absl::Status explain_sums(const lathe_epilogue& e) {
  const auto with = [](const std::string& what) {
    return invalid(absl::StrCat("d i32 holds the exact sums of i8 products, without an epilogue: ", what));
  };
  if (e.alpha != 1.0f) return with(absl::StrCat("alpha ", e.alpha, " is not 1"));
  if (e.beta != 0.0f) return with(absl::StrCat("beta ", e.beta, " is not 0"));
  if (e.bias != nullptr) return with("bias is not NULL");
  if (raw(e.activation) != LATHE_ACTIVATION_NONE) return with("activation is not NONE");
  return with("residual is not NULL");
}

// D is a float that an epilogue in f32 is rounded to, or, of bytes, i32 sums as they are.
bool check_output(const lathe_matmul_desc& d, absl::Status* why) {
  if (is_float(d.d.dtype) || raw(d.d.dtype) != LATHE_I32 || raw(d.a.dtype) != LATHE_I8) {
    return check_row_operand(kD, d.d, why);
  }
  const lathe_epilogue& e = d.epilogue;
  if (e.alpha != 1.0f || e.beta != 0.0f || e.bias != nullptr || raw(e.activation) != LATHE_ACTIVATION_NONE ||
      e.residual.data != nullptr) {
    return refuse(why, explain_sums(e));
  }
  return d.d.layout == LATHE_ROW_MAJOR || refuse(why, column_major(kD));
}

[[gnu::cold]] absl::Status explain_enums(const lathe_matmul_desc& d) {
  if (!is_factor(d.a.dtype)) return explain_dtype("a", d.a.dtype, kFactorNames);
  if (!is_factor(d.b.dtype)) return explain_dtype("b", d.b.dtype, kFactorNames);
  if (raw(d.a.dtype) != raw(d.b.dtype)) return invalid("a and b differ in dtype");
  if (raw(d.epilogue.activation) > LATHE_ACTIVATION_SILU) {
    return invalid(absl::StrCat("activation ", raw(d.epilogue.activation), " is unknown"));
  }
  if (raw(d.determinism) > LATHE_DETERMINISM_BATCH_INVARIANT) {
    return invalid(absl::StrCat("determinism ", raw(d.determinism), " is unknown"));
  }
  return invalid(absl::StrCat("math ", raw(d.math), " is unknown"));
}

// A packed B: K runs along it as in COLUMN_MAJOR, panel by panel (core/packed.h).
bool read_packed(const lathe_operand& b, bool is_cpu, ProblemClass* out, absl::Status* why) {
  if (!is_cpu) return refuse(why, absl::UnimplementedError("b: packed_layout: on the CPU alone"));
  absl::StatusOr<PackedForm> form = packed_form(b.packed_layout, out->b);
  if (!form.ok())
    return refuse(why, absl::InvalidArgumentError(absl::StrCat("b: ", form.status().message())));
  if (b.leading_dimension != 0)
    return refuse(
        why, invalid(absl::StrCat("b: packed, its leading_dimension ", b.leading_dimension, " is not 0")));
  out->packed_b = *form;
  out->trans_b = 1;
  return true;
}

bool read_class(const lathe_matmul_desc& d, bool is_cpu, ProblemClass* out, absl::Status* why) {
  const lathe_epilogue& e = d.epilogue;
  if (!is_factor(d.a.dtype) || raw(d.a.dtype) != raw(d.b.dtype) ||
      raw(e.activation) > LATHE_ACTIVATION_SILU || raw(d.determinism) > LATHE_DETERMINISM_BATCH_INVARIANT ||
      raw(d.math) > LATHE_MATH_TF32) {
    return refuse(why, explain_enums(d));
  }
  if (!check_output(d, why)) return false;
  out->op = Op::kMatmul;
  out->a = to_dtype(d.a.dtype);
  out->b = to_dtype(d.b.dtype);
  out->d = to_dtype(d.d.dtype);
  out->trans_a = d.a.layout == LATHE_COLUMN_MAJOR;
  out->trans_b = d.b.layout == LATHE_COLUMN_MAJOR;
  if (d.b.packed_layout != 0 && !read_packed(d.b, is_cpu, out, why)) return false;
  out->activation = static_cast<Activation>(e.activation);
  out->determinism = static_cast<Determinism>(d.determinism);
  if (raw(d.a.dtype) == LATHE_F32) out->math = static_cast<Math>(d.math);  // no other dtype's kernels differ
  if (e.beta != 0.0f) {
    if (!check_row_operand(kC, d.c, why)) return false;
    out->c = to_dtype(d.c.dtype);
  }
  if (e.bias != nullptr) {
    if (!is_float(e.bias_dtype)) return refuse(why, explain_dtype("bias", e.bias_dtype, kFloatNames));
    out->bias = to_dtype(e.bias_dtype);
  }
  if (e.residual.data != nullptr) {
    if (!check_row_operand(kResidual, e.residual, why)) return false;
    out->residual = to_dtype(e.residual.dtype);
  }
  return true;
}

bool read_dims(const lathe_matmul_desc& d, Purpose purpose, Request* out, absl::Status* why) {
  Dims& dims = out->dims;
  dims = {purpose == Purpose::kWarm ? 1 : d.m, d.n, d.k, d.batch};
  // As unsigned a negative size is a large one, and all four are at most kMaxDim when their bits are.
  static_assert((kMaxDim & (kMaxDim + 1)) == 0, "the test below is bitwise");
  if (static_cast<uint64_t>(dims.m | dims.n | dims.k | dims.batch) > uint64_t{kMaxDim}) {
    return refuse(why, explain_dims(dims));
  }
  const Bucket bucket = m_bucket(dims.m);
  ProblemClass& c = out->key.problem;
  c.n = dims.n;
  c.k = dims.k;
  c.m_lo = bucket.lo;
  c.m_hi = bucket.hi;
  out->nothing_to_do = dims.m == 0 || dims.n == 0 || dims.batch == 0;
  out->empty_product = dims.k == 0;
  return true;
}

// A line for each matrix of the batch.
bool place_packed(const lathe_operand& b, const Dims& dims, const ProblemClass& c, int64_t* leading,
                  Region* out, absl::Status* why) {
  const auto size = static_cast<int64_t>(size_of(c.b));
  *leading = dims.k;
  *out = {reinterpret_cast<uintptr_t>(b.data), 0, 1, 0, dims.batch, 0, 0};
  if (b.batch_stride < 0 || __builtin_mul_overflow(packed_elements(dims.k, dims.n), size, &out->width) ||
      __builtin_mul_overflow(b.batch_stride, size, &out->stride) || !measure(out)) {
    return refuse(why, explain_distance(kOperandB, b, dims.k));
  }
  return true;
}

bool place_operands(const lathe_matmul_desc& d, Request* out, Regions* r, absl::Status* why) {
  const ProblemClass& c = out->key.problem;
  const auto [m, n, k, batch] = out->dims;
  ArgumentBlock& args = out->args;
  const lathe_operand& residual = d.epilogue.residual;
  if (!place_operand(kOperandA, d.a, batch, m, k, &args.lda, &r->a, why)) return false;
  if (c.packed_b != kNotPacked) {
    if (!place_packed(d.b, out->dims, c, &args.ldb, &r->b, why)) return false;
  } else if (!place_operand(kOperandB, d.b, batch, k, n, &args.ldb, &r->b, why)) {
    return false;
  }
  if (!place_operand(kD, d.d, batch, m, n, &args.ldd, &r->d, why)) return false;
  if (c.c != DType::kNone && !place_operand(kC, d.c, batch, m, n, &args.ldc, &r->c, why)) return false;
  if (c.residual != DType::kNone &&
      !place_operand(kResidual, residual, batch, m, n, &args.ldr, &r->residual, why)) {
    return false;
  }
  if (c.bias != DType::kNone) r->bias = line_at(d.epilogue.bias, n * static_cast<int64_t>(size_of(c.bias)));
  if (!disjoint_within(r->d)) {
    return refuse(why, invalid(absl::StrCat("d overlaps itself: batch_stride ", d.d.batch_stride,
                                            " with ldd ", args.ldd)));
  }
  args.stride_a = d.a.batch_stride;
  args.stride_b = d.b.batch_stride;
  args.stride_c = d.c.batch_stride;
  args.stride_d = d.d.batch_stride;
  args.stride_r = residual.batch_stride;
  return true;
}

void align_class(const Regions& r, bool with_pointers, Request* out) {
  ProblemClass& c = out->key.problem;
  OperandAlignment alignment(with_pointers);
  align_product(*out, r.a, r.b, &alignment);
  alignment.add(r.d, c.d);
  if (c.c != DType::kNone) alignment.add(r.c, c.c);
  if (c.residual != DType::kNone) alignment.add(r.residual, c.residual);
  if (c.bias != DType::kNone) alignment.add(r.bias, c.bias);
  c = with_alignment(c, alignment.largest(), /*is_cpu=*/false);
}

// True when the operand is D itself, which the kernels read before they write.
bool is_d(const Region& r, DType dtype, const Region& d, DType d_dtype) {
  return r.base == d.base && dtype == d_dtype && r.pitch == d.pitch && (d.count == 1 || r.stride == d.stride);
}

[[gnu::cold]] absl::Status overlaps(const char* name, bool may_alias) {
  return invalid(absl::StrCat("d overlaps ", name, may_alias ? " without being exactly it" : ""));
}

bool check_overlap(const ProblemClass& c, const Regions& r, absl::Status* why) {
  if (!known_disjoint(r.d, r.a)) return refuse(why, overlaps("a", false));
  if (!known_disjoint(r.d, r.b)) return refuse(why, overlaps("b", false));
  if (c.bias != DType::kNone && !known_disjoint(r.d, r.bias)) return refuse(why, overlaps("bias", false));
  if (c.c != DType::kNone && !is_d(r.c, c.c, r.d, c.d) && !known_disjoint(r.d, r.c)) {
    return refuse(why, overlaps("c", true));
  }
  if (c.residual != DType::kNone && !is_d(r.residual, c.residual, r.d, c.d) &&
      !known_disjoint(r.d, r.residual)) {
    return refuse(why, overlaps("residual", true));
  }
  return true;
}

bool check_pointers(const lathe_matmul_desc& d, const Request& request, absl::Status* why) {
  if (request.reads_operands()) {
    if (d.a.data == nullptr) return refuse(why, invalid("a is NULL"));
    if (d.b.data == nullptr) return refuse(why, invalid("b is NULL"));
  }
  if (d.d.data == nullptr) return refuse(why, invalid("d is NULL"));
  if (request.key.problem.c != DType::kNone && d.c.data == nullptr) {
    return refuse(why, invalid("c is NULL and beta is not 0"));
  }
  return true;
}

void fill_arguments(const lathe_matmul_desc& d, const Request& request, ArgumentBlock* args) {
  const Dims& dims = request.dims;
  if (request.reads_operands()) {
    args->a = d.a.data;
    args->b = d.b.data;
  }
  args->c = d.c.data;
  args->d = d.d.data;
  args->bias = const_cast<void*>(d.epilogue.bias);
  args->residual = d.epilogue.residual.data;
  args->m = static_cast<int32_t>(dims.m);
  args->n = static_cast<int32_t>(dims.n);
  args->k = static_cast<int32_t>(dims.k);
  args->batch = static_cast<int32_t>(dims.batch);
  args->alpha = d.epilogue.alpha;
  args->beta = d.epilogue.beta;
}

bool read(const lathe_matmul_desc& d, Purpose purpose, const RequestContext& context, void* stream,
          Request* out, absl::Status* why) {
  if (!headers_plain(d)) return refuse(why, explain_headers(d));
  if (d.next != nullptr && !read_chain(d.next, out, why)) return false;
  if (!read_policy(d.miss_policy, context, out, why)) return false;
  if (!read_dependent_launch(d.dependent_launch, context, out, why)) return false;
  if (!read_class(d, context.is_cpu, &out->key.problem, why)) return false;
  if (!read_dims(d, purpose, out, why)) return false;
  Regions regions;
  if (!place_operands(d, out, &regions, why)) return false;
  if (!context.is_cpu) {
    if (out->empty_product) become_zero_product(out);
    align_class(regions, purpose == Purpose::kRun, out);
  }
  if (purpose != Purpose::kRun) return true;

  if (context.is_cpu && stream != nullptr)
    return refuse(why, invalid("the stream is not NULL, as it must be on the CPU"));
  out->stream = stream;
  if (out->nothing_to_do) return true;
  if (!check_pointers(d, *out, why)) return false;
  if (!check_overlap(out->key.problem, regions, why)) return false;
  fill_arguments(d, *out, &out->args);
  return true;
}

// For messages.
[[gnu::cold]] std::string describe(const lathe_matmul_desc& d) {
  ProblemClass c;
  c.a = known_dtype(d.a.dtype);
  c.d = known_dtype(d.d.dtype);
  c.trans_a = raw(d.a.layout) == LATHE_COLUMN_MAJOR;
  c.trans_b = raw(d.b.layout) == LATHE_COLUMN_MAJOR;
  c.packed_b = d.b.packed_layout != 0;
  return describe(c, Dims{d.m, d.n, d.k, d.batch});
}

}  // namespace

absl::Status read_matmul(const lathe_matmul_desc* desc, Purpose purpose, const RequestContext& context,
                         void* stream, Request* out) {
  if (desc == nullptr) return invalid("matmul: desc is NULL");
  if (desc->struct_size != sizeof(lathe_matmul_desc)) {
    return invalid(absl::StrCat("matmul: lathe_matmul_desc: struct_size ", desc->struct_size, " is not ",
                                sizeof(lathe_matmul_desc)));
  }
  absl::Status why;
  if (__builtin_expect(!read(*desc, purpose, context, stream, out, &why), 0)) {
    return in_request(describe(*desc), context.device, why);
  }
  return absl::OkStatus();
}

}  // namespace lathe
