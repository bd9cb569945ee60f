#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/options.h"
#include "api/overlap.h"
#include "api/request.h"

namespace lathe {
namespace {

// How messages name an operand and its dimensions.
struct OperandName {
  const char* name;
  const char* leading;  // its leading dimension
  const char* rows;
  const char* columns;
};
constexpr OperandName kA = {"a", "lda", "m", "k"};
constexpr OperandName kB = {"b", "ldb", "k", "n"};
constexpr OperandName kC = {"c", "ldc", "m", "n"};
constexpr OperandName kD = {"d", "ldd", "m", "n"};
constexpr OperandName kResidual = {"residual", "ldr", "m", "n"};

struct Regions {
  Region a, b, c, d, bias, residual;
};

absl::Status invalid(const std::string& cause) { return absl::InvalidArgumentError(cause); }

bool headers_plain(const lathe_matmul_desc& d) {
  const lathe_epilogue& e = d.epilogue;
  return plain(d.a) && plain(d.b) && plain(d.c) && plain(d.d) && d.m_device == nullptr &&
         e.struct_size == sizeof(lathe_epilogue) && e.next == nullptr && e.alpha_device == nullptr &&
         e.beta_device == nullptr && plain(e.residual);
}

[[gnu::cold]] absl::Status explain_headers(const lathe_matmul_desc& d) {
  if (!plain(d.a)) return explain_operand("a", d.a);
  if (!plain(d.b)) return explain_operand("b", d.b);
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
absl::Status check_row_operand(const OperandName& name, const lathe_operand& o) {
  if (!is_float(o.dtype)) return explain_dtype(name.name, o.dtype);
  if (o.layout != LATHE_ROW_MAJOR) return column_major(name);
  return absl::OkStatus();
}

absl::Status read_class(const lathe_matmul_desc& d, ProblemClass* out) {
  const lathe_epilogue& e = d.epilogue;
  if (!is_float(d.a.dtype)) return explain_dtype("a", d.a.dtype);
  if (!is_float(d.b.dtype)) return explain_dtype("b", d.b.dtype);
  if (d.a.dtype != d.b.dtype) return invalid("a and b differ in dtype");
  LATHE_RETURN_IF_ERROR(check_row_operand(kD, d.d));
  if (static_cast<uint32_t>(e.activation) > LATHE_ACTIVATION_SILU) {
    return invalid(absl::StrCat("activation ", static_cast<int>(e.activation), " is unknown"));
  }
  if (static_cast<uint32_t>(d.determinism) > LATHE_DETERMINISM_BATCH_INVARIANT) {
    return invalid(absl::StrCat("determinism ", static_cast<int>(d.determinism), " is unknown"));
  }
  out->op = Op::kMatmul;
  out->a = to_dtype(d.a.dtype);
  out->b = to_dtype(d.b.dtype);
  out->d = to_dtype(d.d.dtype);
  out->trans_a = d.a.layout == LATHE_COLUMN_MAJOR;
  out->trans_b = d.b.layout == LATHE_COLUMN_MAJOR;
  out->activation = static_cast<Activation>(e.activation);
  out->determinism = static_cast<Determinism>(d.determinism);
  if (e.beta != 0.0f) {
    LATHE_RETURN_IF_ERROR(check_row_operand(kC, d.c));
    out->c = to_dtype(d.c.dtype);
  }
  if (e.bias != nullptr) {
    if (!is_float(e.bias_dtype)) return explain_dtype("bias", e.bias_dtype);
    out->bias = to_dtype(e.bias_dtype);
  }
  if (e.residual.data != nullptr) {
    LATHE_RETURN_IF_ERROR(check_row_operand(kResidual, e.residual));
    out->residual = to_dtype(e.residual.dtype);
  }
  return absl::OkStatus();
}

[[gnu::cold]] absl::Status explain_dim(const char* name, int64_t value) {
  if (value < 0) return invalid(absl::StrCat(name, " ", value, " < 0"));
  return invalid(absl::StrCat(name, " ", value, " > ", kMaxDim));
}

absl::Status read_dims(const lathe_matmul_desc& d, Purpose purpose, Dims* out) {
  // As unsigned a negative size is a large one.
  constexpr uint64_t kMax = kMaxDim;
  if (purpose != Purpose::kWarm && static_cast<uint64_t>(d.m) > kMax) return explain_dim("m", d.m);
  if (static_cast<uint64_t>(d.n) > kMax) return explain_dim("n", d.n);
  if (static_cast<uint64_t>(d.k) > kMax) return explain_dim("k", d.k);
  if (static_cast<uint64_t>(d.batch) > kMax) return explain_dim("batch", d.batch);
  *out = {purpose == Purpose::kWarm ? 1 : d.m, d.n, d.k, d.batch};
  return absl::OkStatus();
}

[[gnu::cold]] absl::Status explain_distance(const OperandName& name, const lathe_operand& o, int64_t width) {
  if (o.leading_dimension < 0) return invalid(absl::StrCat(name.leading, " ", o.leading_dimension, " < 0"));
  if (o.batch_stride < 0) return invalid(absl::StrCat(name.name, ": batch_stride ", o.batch_stride, " < 0"));
  if (o.leading_dimension != 0 && o.leading_dimension < width) {
    return invalid(absl::StrCat(name.leading, " ", o.leading_dimension, " < ",
                                o.layout == LATHE_COLUMN_MAJOR ? name.rows : name.columns, " ", width));
  }
  return invalid(absl::StrCat(name.name, ": spans more than 2^63 - 1 bytes"));
}

// Rows by columns elements, `batch` times: checks the distances and answers where the elements lie.
absl::Status place(const OperandName& name, const lathe_operand& o, const Dims& dims, int64_t rows,
                   int64_t columns, int64_t* leading, Region* out) {
  if (o.layout == LATHE_COLUMN_MAJOR) std::swap(rows, columns);
  *leading = o.leading_dimension == 0 ? columns : o.leading_dimension;
  const auto size = static_cast<int64_t>(size_of(to_dtype(o.dtype)));
  out->base = reinterpret_cast<uintptr_t>(o.data);
  out->width = columns * size;
  out->lines = rows;
  out->count = dims.batch;
  if (*leading < columns || o.batch_stride < 0 || __builtin_mul_overflow(*leading, size, &out->pitch) ||
      __builtin_mul_overflow(o.batch_stride, size, &out->stride) || !measure(out)) {
    return explain_distance(name, o, columns);
  }
  return absl::OkStatus();
}

absl::Status place_operands(const lathe_matmul_desc& d, const ProblemClass& c, const Dims& dims, Regions* r,
                            ArgumentBlock* args) {
  LATHE_RETURN_IF_ERROR(place(kA, d.a, dims, dims.m, dims.k, &args->lda, &r->a));
  LATHE_RETURN_IF_ERROR(place(kB, d.b, dims, dims.k, dims.n, &args->ldb, &r->b));
  LATHE_RETURN_IF_ERROR(place(kD, d.d, dims, dims.m, dims.n, &args->ldd, &r->d));
  if (c.c != DType::kNone) {
    LATHE_RETURN_IF_ERROR(place(kC, d.c, dims, dims.m, dims.n, &args->ldc, &r->c));
  }
  const lathe_operand& residual = d.epilogue.residual;
  if (c.residual != DType::kNone) {
    LATHE_RETURN_IF_ERROR(place(kResidual, residual, dims, dims.m, dims.n, &args->ldr, &r->residual));
  }
  if (c.bias != DType::kNone) {
    r->bias.base = reinterpret_cast<uintptr_t>(d.epilogue.bias);
    r->bias.width = r->bias.bytes = dims.n * static_cast<int64_t>(size_of(c.bias));
    r->bias.lines = 1;
  }
  if (!disjoint_within(r->d)) {
    return invalid(
        absl::StrCat("d overlaps itself: batch_stride ", d.d.batch_stride, " with ldd ", args->ldd));
  }
  args->stride_a = d.a.batch_stride;
  args->stride_b = d.b.batch_stride;
  args->stride_c = d.c.batch_stride;
  args->stride_d = d.d.batch_stride;
  args->stride_r = residual.batch_stride;
  return absl::OkStatus();
}

// True when the operand is D itself, which the kernels read before they write.
bool is_d(const Region& r, DType dtype, const Region& d, DType d_dtype) {
  return r.base == d.base && dtype == d_dtype && r.pitch == d.pitch && (d.count == 1 || r.stride == d.stride);
}

[[gnu::cold]] absl::Status overlaps(const char* name, bool may_alias) {
  return invalid(absl::StrCat("d overlaps ", name, may_alias ? " without being exactly it" : ""));
}

absl::Status check_overlap(const ProblemClass& c, const Regions& r) {
  if (!known_disjoint(r.d, r.a)) return overlaps("a", false);
  if (!known_disjoint(r.d, r.b)) return overlaps("b", false);
  if (!known_disjoint(r.d, r.bias)) return overlaps("bias", false);
  if (c.c != DType::kNone && !is_d(r.c, c.c, r.d, c.d) && !known_disjoint(r.d, r.c))
    return overlaps("c", true);
  if (c.residual != DType::kNone && !is_d(r.residual, c.residual, r.d, c.d) &&
      !known_disjoint(r.d, r.residual)) {
    return overlaps("residual", true);
  }
  return absl::OkStatus();
}

absl::Status check_pointers(const lathe_matmul_desc& d, const Request& request) {
  if (!request.empty_product) {
    if (d.a.data == nullptr) return invalid("a is NULL");
    if (d.b.data == nullptr) return invalid("b is NULL");
  }
  if (d.d.data == nullptr) return invalid("d is NULL");
  if (d.epilogue.beta != 0.0f && d.c.data == nullptr) return invalid("c is NULL and beta is not 0");
  return absl::OkStatus();
}

void fill_arguments(const lathe_matmul_desc& d, const Dims& dims, ArgumentBlock* args) {
  args->a = d.a.data;
  args->b = d.b.data;
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

// The error is the bare cause.
absl::Status read(const lathe_matmul_desc& d, Purpose purpose, const RequestContext& context, void* stream,
                  Request* out) {
  if (!headers_plain(d)) return explain_headers(d);
  if (d.next != nullptr) LATHE_RETURN_IF_ERROR(read_chain(d.next, out));
  out->block_on_miss = context.block_on_miss;
  if (d.miss_policy != LATHE_MISS_DEFAULT) {
    LATHE_ASSIGN_OR_RETURN(out->block_on_miss, read_miss_policy(d.miss_policy, context.block_on_miss));
  }
  ProblemClass& c = out->key.problem;
  LATHE_RETURN_IF_ERROR(read_class(d, &c));
  LATHE_RETURN_IF_ERROR(read_dims(d, purpose, &out->dims));
  const Bucket bucket = m_bucket(out->dims.m);
  c.n = out->dims.n;
  c.k = out->dims.k;
  c.m_lo = bucket.lo;
  c.m_hi = bucket.hi;
  Regions regions;
  LATHE_RETURN_IF_ERROR(place_operands(d, c, out->dims, &regions, &out->args));
  out->nothing_to_do = out->dims.m == 0 || out->dims.n == 0 || out->dims.batch == 0;
  out->empty_product = out->dims.k == 0;
  if (purpose != Purpose::kRun) return absl::OkStatus();

  if (context.is_cpu && stream != nullptr) return invalid("the stream is not NULL, as it must be on the CPU");
  out->stream = stream;
  if (out->nothing_to_do) return absl::OkStatus();
  LATHE_RETURN_IF_ERROR(check_pointers(d, *out));
  LATHE_RETURN_IF_ERROR(check_overlap(c, regions));
  fill_arguments(d, out->dims, &out->args);
  return absl::OkStatus();
}

// For messages: unknown enum values show as "none".
[[gnu::cold]] std::string describe(const lathe_matmul_desc& d) {
  const auto known = [](lathe_dtype t) {
    return static_cast<uint32_t>(t) <= LATHE_I64 ? to_dtype(t) : DType();
  };
  ProblemClass c;
  c.a = known(d.a.dtype);
  c.d = known(d.d.dtype);
  c.trans_a = d.a.layout == LATHE_COLUMN_MAJOR;
  c.trans_b = d.b.layout == LATHE_COLUMN_MAJOR;
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
  absl::Status status = read(*desc, purpose, context, stream, out);
  if (__builtin_expect(!status.ok(), 0)) return in_request(describe(*desc), context.device, status);
  return status;
}

}  // namespace lathe
