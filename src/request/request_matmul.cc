#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "request/request.h"
#include "request/request_scaled.h"

namespace lathe {
namespace {

constexpr OperandName kC = {"c", "ldc", "m", "n"};
constexpr OperandName kD = {"d", "ldd", "m", "n"};
constexpr OperandName kResidual = {"residual", "ldr", "m", "n"};

// C, bias and residual are set only if the class has them. Otherwise only their `bytes` are set, to 0.
struct Regions {
  Regions() { c.bytes = bias.bytes = residual.bytes = 0; }

  Region a, b, c, d, bias, residual;
};

absl::Status invalid(const std::string& cause) { return absl::InvalidArgumentError(cause); }

bool headers_plain(const lathe_matmul_desc& d) {
  const lathe_epilogue& e = d.epilogue;
  const bool epilogue_plain =
      ((e.struct_size ^ sizeof(lathe_epilogue)) | reinterpret_cast<uintptr_t>(e.next) |
       reinterpret_cast<uintptr_t>(e.alpha_device) | reinterpret_cast<uintptr_t>(e.beta_device) |
       e.reserved) == 0;
  return epilogue_plain && plain_factor(d.a) && plain_or_packed_factor(d.b) && plain(d.c) && plain(d.d) &&
         plain(e.residual);
}

[[gnu::cold]] absl::Status explain_headers(const lathe_matmul_desc& d) {
  if (!plain_factor(d.a)) return explain_operand("a", d.a);
  if (!plain_or_packed_factor(d.b)) return explain_operand("b", d.b);
  if (!plain(d.c)) return explain_operand("c", d.c);
  if (!plain(d.d)) return explain_operand("d", d.d);
  const lathe_epilogue& e = d.epilogue;
  if (e.struct_size != sizeof(lathe_epilogue)) {
    return invalid(absl::StrCat("epilogue: struct_size ", e.struct_size, " is not ", sizeof(lathe_epilogue)));
  }
  if (e.next != nullptr) return absl::UnimplementedError("epilogue: no chain element is supported here");
  if (e.alpha_device != nullptr)
    return absl::UnimplementedError("epilogue: alpha_device is reserved and must be NULL");
  if (e.beta_device != nullptr)
    return absl::UnimplementedError("epilogue: beta_device is reserved and must be NULL");
  if (e.reserved != 0) return absl::UnimplementedError("epilogue: reserved is not 0");
  return explain_operand("residual", e.residual);
}

[[gnu::cold]] absl::Status column_major(const OperandName& name) {
  return absl::UnimplementedError(absl::StrCat(name.name, ": only ROW_MAJOR is supported"));
}

// An M by N operand of the epilogue: C or the residual.
[[gnu::always_inline]] inline bool check_row_operand(const OperandName& name, const lathe_operand& o,
                                                     absl::Status* why) {
  if (!is_float(o.dtype)) return refuse(why, explain_dtype(name.name, o.dtype, kFloats));
  if (o.layout != LATHE_ROW_MAJOR) return refuse(why, column_major(name));
  return true;
}

// Why no class has the descriptor's dtypes, layouts and enums.
[[gnu::cold]] absl::Status explain_enums(const lathe_matmul_desc& d, Devices devices) {
  absl::Status why;
  if (!check_known("a", d.a.dtype, &why) || !check_known("b", d.b.dtype, &why)) return why;
  ProblemClass c;
  c.a = to_dtype(d.a.dtype);
  c.b = to_dtype(d.b.dtype);
  c.d = DType::kF32;  // every product has it, so the defect found is one of A and B
  c.trans_b = d.b.layout == LATHE_COLUMN_MAJOR;
  if (why = explain_class(c, devices); !why.ok()) return why;
  if (raw(d.epilogue.activation) > LATHE_ACTIVATION_CLAMP_PLUS_ONE) {
    return invalid(absl::StrCat("activation ", raw(d.epilogue.activation), " is unknown"));
  }
  if (raw(d.epilogue.combine) > LATHE_COMBINE_MULTIPLY)
    return invalid(absl::StrCat("combine ", raw(d.epilogue.combine), " is unknown"));
  if (raw(d.determinism) > LATHE_DETERMINISM_BATCH_INVARIANT) {
    return invalid(absl::StrCat("determinism ", raw(d.determinism), " is unknown"));
  }
  if (raw(d.math) > LATHE_MATH_BF16) return invalid(absl::StrCat("math ", raw(d.math), " is unknown"));
  return explain_dtype(kD.name, d.d.dtype, find_product(c.a, c.b)->results);
}

// i32 results are the exact sums.
[[gnu::cold]] absl::Status explain_sums(const lathe_epilogue& e, const ProblemClass& c, Devices devices) {
  if (e.alpha != 1.0f)
    return invalid(
        absl::StrCat("d: i32 holds the exact sums, which have no epilogue: alpha ", e.alpha, " is not 1"));
  return explain_class(c, devices);
}

bool read_class(const lathe_matmul_desc& d, Devices devices, ProblemClass* out, absl::Status* why) {
  const lathe_epilogue& e = d.epilogue;
  const Product* product = find_product(Op::kMatmul, d.a.dtype, d.b.dtype, devices);
  // The layout of a packed B has no effect.
  const bool is_column_major = d.b.layout == LATHE_COLUMN_MAJOR || d.b.packed_layout != 0;
  if (product == nullptr || !has_layout(*product, is_column_major) ||
      !product->results.has(to_dtype(d.d.dtype)) || raw(e.activation) > LATHE_ACTIVATION_CLAMP_PLUS_ONE ||
      raw(e.combine) > LATHE_COMBINE_MULTIPLY || raw(d.determinism) > LATHE_DETERMINISM_BATCH_INVARIANT ||
      raw(d.math) > LATHE_MATH_BF16) {
    return refuse(why, explain_enums(d, devices));
  }
  if (d.d.layout != LATHE_ROW_MAJOR) return refuse(why, column_major(kD));
  out->op = Op::kMatmul;
  out->a = product->a;
  out->b = product->b;
  out->d = to_dtype(d.d.dtype);
  out->trans_a = d.a.layout == LATHE_COLUMN_MAJOR;
  out->trans_b = d.b.layout == LATHE_COLUMN_MAJOR;
  if (d.b.packed_layout != 0 && !read_packed(d.b, d.n, devices == Devices::kCpu, out, why)) return false;
  out->activation = static_cast<Activation>(e.activation);
  out->determinism = static_cast<Determinism>(d.determinism);
  read_math(d.math, out);
  if (e.beta != 0.0f) {
    if (!check_row_operand(kC, d.c, why)) return false;
    out->c = to_dtype(d.c.dtype);
  }
  if (e.bias != nullptr) {
    if (!is_float(e.bias_dtype)) return refuse(why, explain_dtype("bias", e.bias_dtype, kFloats));
    out->bias = to_dtype(e.bias_dtype);
  }
  if (e.residual.data != nullptr) {
    if (!check_row_operand(kResidual, e.residual, why)) return false;
    out->residual = to_dtype(e.residual.dtype);
  }
  if (raw(e.combine) != LATHE_COMBINE_ADD) {
    out->combine = Combine::kMultiply;
    if (e.residual.data == nullptr) return refuse(why, explain_class(*out, devices));
  }
  if (out->d == DType::kI32 && (e.alpha != 1.0f || has_epilogue(*out)))
    return refuse(why, explain_sums(e, *out, devices));
  return true;
}

bool read_dims(const lathe_matmul_desc& d, Purpose purpose, Request* out, absl::Status* why) {
  Dims& dims = out->dims;
  dims = {purpose == Purpose::kWarm ? 1 : d.m, d.n, d.k, d.batch};
  // As unsigned, a negative size is a large one. All four are at most kMaxDim if their combined bits are.
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

// The elements of an A with block scales, whose distances need not be whole blocks.
[[gnu::cold]] bool place_codes(const lathe_operand& a, Matrices lines, const Placement& out,
                               absl::Status* why) {
  lathe_operand bytes;
  *why = bytes_of_elements(a, &lines, &bytes);
  if (!why->ok() || !place_operand(kOperandA, bytes, lines, out, why)) return false;
  const int64_t per_byte = elements_a_byte(to_dtype(a.dtype));
  *out.leading *= per_byte;
  *out.stride *= per_byte;
  return true;
}

bool place_operands(const lathe_matmul_desc& d, Request* out, Regions* r, absl::Status* why) {
  const ProblemClass& c = out->key.problem;
  const auto [m, n, k, batch] = out->dims;
  ArgumentBlock& args = out->args;
  const Placement b = {&args.ldb, &args.stride_b, &r->b};
  const Matrices rows = {batch, m, n};
  // Not values of lathe_dtype.
  if (__builtin_expect(has_scales_apart(c.b), 0) && !out->scaled)
    return refuse(why, invalid(absl::StrCat("b: dtype ", raw(d.b.dtype), " is unknown")));
  const Placement a = {&args.lda, &args.stride_a, &r->a};
  if (__builtin_expect(is_blocks(c.a), 0)) {
    if (!place_codes(d.a, {batch, m, k}, a, why)) return false;
  } else if (!place_operand(kOperandA, d.a, {batch, m, k}, a, why)) {
    return false;
  }
  if (d.b.packed_layout != 0) {
    if (!place_packed(d.b, out->dims, c, b, why)) return false;
  } else if (__builtin_expect(is_blocks(c.b), 0)) {
    if (!place_blocks(d.b, out->dims, c.b, b, why)) return false;
  } else if (!place_operand(kOperandB, d.b, {batch, k, n}, b, why)) {
    return false;
  }
  if (!place_operand(kD, d.d, rows, {&args.ldd, &args.stride_d, &r->d}, why)) return false;
  if (c.c != DType::kNone && !place_operand(kC, d.c, rows, {&args.ldc, &args.stride_c, &r->c}, why))
    return false;
  if (c.residual != DType::kNone &&
      !place_operand(kResidual, d.epilogue.residual, rows, {&args.ldr, &args.stride_r, &r->residual}, why)) {
    return false;
  }
  if (c.bias != DType::kNone) r->bias = line_at(d.epilogue.bias, n * static_cast<int64_t>(size_of(c.bias)));
  return true;
}

void align_class(const Regions& r, bool with_pointers, Request* out) {
  ProblemClass& c = out->key.problem;
  OperandAlignment alignment(with_pointers);
  align_product(*out, r.a, r.b, &alignment);
  align_scales(*out, &alignment);
  alignment.add(r.d, c.d);
  if (c.c != DType::kNone) alignment.add(r.c, c.c);
  if (c.residual != DType::kNone) alignment.add(r.residual, c.residual);
  if (c.bias != DType::kNone) alignment.add(r.bias, c.bias);
  c = with_alignment(c, alignment.largest(), /*is_cpu=*/false);
}

// Whether the operand is D itself. That is legal: kernels read each element before they write it.
bool is_d(const Region& r, DType dtype, const Region& d, DType d_dtype) {
  return r.base == d.base && dtype == d_dtype && r.pitch == d.pitch && (d.count == 1 || r.stride == d.stride);
}

[[gnu::cold]] absl::Status overlaps(const char* name, bool may_alias) {
  return invalid(absl::StrCat("d overlaps ", name, may_alias ? " but is not the same matrix" : ""));
}

[[gnu::always_inline]] inline bool check_overlap(const ProblemClass& c, const Regions& r, absl::Status* why) {
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

[[gnu::always_inline]] inline bool check_pointers(const lathe_matmul_desc& d, const Request& request,
                                                  absl::Status* why) {
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

[[gnu::always_inline]] inline void fill_arguments(const lathe_matmul_desc& d, const Request& request,
                                                  ArgumentBlock* args) {
  const Dims& dims = request.dims;
  if (request.reads_operands()) {
    args->a = d.a.data;
    args->b = d.b.data;
  }
  args->c = d.c.data;
  args->d = d.d.data;
  args->bias = const_cast<void*>(d.epilogue.bias);
  args->residual = d.epilogue.residual.data;
  args->values = const_cast<int32_t*>(d.m_device);
  args->m = static_cast<int32_t>(dims.m);
  args->n = static_cast<int32_t>(dims.n);
  args->k = static_cast<int32_t>(dims.k);
  args->batch = static_cast<int32_t>(dims.batch);
  args->alpha = d.epilogue.alpha;
  args->beta = d.epilogue.beta;
}

// Whether A or B has a scale or a zero point.
bool is_quantised(const lathe_matmul_desc& d) {
  return (reinterpret_cast<uintptr_t>(d.a.scale) | reinterpret_cast<uintptr_t>(d.b.scale) |
          reinterpret_cast<uintptr_t>(d.a.zero_point) | reinterpret_cast<uintptr_t>(d.b.zero_point)) != 0;
}

absl::Status read_scale(const char* name, const lathe_operand& o, Purpose purpose, Scale* granularity,
                        void** data) {
  const lathe_scale* s = o.scale;
  if (s == nullptr) return absl::OkStatus();
  const auto bad = [&](auto... text) { return invalid(absl::StrCat(name, ": scale: ", text...)); };
  const auto refused = [&](auto... text) {
    return absl::UnimplementedError(absl::StrCat(name, ": scale: ", text...));
  };
  if (s->struct_size != sizeof(lathe_scale))
    return bad("struct_size ", s->struct_size, " is not ", sizeof(lathe_scale));
  if (s->next != nullptr) return refused("no chain element is supported here");
  if (raw(s->dtype) != LATHE_F32)
    return explain_dtype(absl::StrCat(name, ": scale"), s->dtype, Set<DType>(DType::kF32));
  if (raw(s->granularity) > LATHE_PER_BLOCK) return bad("granularity ", raw(s->granularity), " is unknown");
  if (s->granularity == LATHE_PER_BLOCK)
    return refused("granularity PER_BLOCK is not supported for i8; use PER_TENSOR or PER_CHANNEL");
  if (s->block_size != 0) return bad("block_size ", s->block_size, " must be 0 without PER_BLOCK");
  if (s->block_lines != 0 || s->layout != LATHE_SCALES_BY_LINE || s->leading_dimension != 0 ||
      s->batch_stride != 0 || s->global != nullptr || s->group_index != nullptr)
    return bad("the fields after block_size must be 0 without PER_BLOCK");
  if (s->reserved != 0) return refused("reserved is not 0");
  if (purpose == Purpose::kRun && s->data == nullptr) return bad("data is NULL");
  *granularity = s->granularity == LATHE_PER_TENSOR ? Scale::kPerTensor : Scale::kPerChannel;
  *data = const_cast<void*>(s->data);
  return absl::OkStatus();
}

absl::Status try_quantisation(const lathe_matmul_desc& d, Purpose purpose, Devices devices, Request* out) {
  ProblemClass& c = out->key.problem;
  ArgumentBlock& args = out->args;
  // First whether these dtypes and this device allow them at all, then the details.
  const auto one = [](const void* given) { return given != nullptr ? Scale::kPerTensor : Scale::kNone; };
  c.scale_a = one(d.a.scale), c.scale_b = one(d.b.scale);
  c.zero_a = d.a.zero_point != nullptr, c.zero_b = one(d.b.zero_point);
  LATHE_RETURN_IF_ERROR(explain_class(c, devices));
  LATHE_RETURN_IF_ERROR(read_scale("a", d.a, purpose, &c.scale_a, &args.scale_a));
  LATHE_RETURN_IF_ERROR(read_scale("b", d.b, purpose, &c.scale_b, &args.scale_b));
  args.zero_a = const_cast<void*>(d.a.zero_point);
  if (c.zero_b != Scale::kNone && c.scale_b == Scale::kPerChannel) c.zero_b = c.scale_b;  // as many as scales
  args.zero_b = const_cast<void*>(d.b.zero_point);
  return absl::OkStatus();
}
[[gnu::cold]] bool read_quantisation(const lathe_matmul_desc& d, Purpose purpose, Devices devices,
                                     Request* out, absl::Status* why) {
  *why = try_quantisation(d, purpose, devices, out);
  return why->ok();
}

// D must not overlap the scales and zero points.
[[gnu::cold]] bool check_quantisation(const Request& request, const Region& d, absl::Status* why) {
  const ProblemClass& c = request.key.problem;
  const ArgumentBlock& args = request.args;
  const auto words = [](Scale s, int64_t channels) {
    return (s == Scale::kPerChannel ? channels : int64_t{s == Scale::kPerTensor}) * 4;
  };
  const std::pair<const char*, Region> read[] = {
      {"the scale of a", line_at(args.scale_a, words(c.scale_a, request.dims.m))},
      {"the scale of b", line_at(args.scale_b, words(c.scale_b, request.dims.n))},
      {"the zero point of a", line_at(args.zero_a, c.zero_a * int64_t{4})},
      {"the zero point of b", line_at(args.zero_b, words(c.zero_b, request.dims.n))}};
  for (const auto& [name, region] : read)
    if (!known_disjoint(d, region)) return refuse(why, overlaps(name, false));
  return true;
}

bool read(const lathe_matmul_desc& d, Purpose purpose, const RequestContext& context, void* stream,
          Request* out, absl::Status* why);

// The CPU reads M when it is called, so the request is one with that M. Distances of 0 stand for memory of `m` rows.
[[gnu::cold]] bool read_known_m(const lathe_matmul_desc& d, const RequestContext& context, void* stream,
                                Request* out, absl::Status* why) {
  const int32_t m = *d.m_device;
  if (m < 0 || m > d.m)
    return refuse(why, invalid(absl::StrCat("m_device holds ", m, ", which is not in [0, m ", d.m, "]")));
  lathe_matmul_desc known = d;
  known.m = m;
  known.m_device = nullptr;
  if (d.a.layout == LATHE_COLUMN_MAJOR && d.a.leading_dimension == 0) known.a.leading_dimension = d.m;
  lathe_scale scale = LATHE_SCALE_INIT;
  if (counts_lines(d.a.scale)) {
    scale = *d.a.scale;
    scale.leading_dimension = d.m;
    known.a.scale = &scale;
  }
  if (!read(known, Purpose::kRun, context, stream, out, why)) return false;
  out->m_is_read = true;
  if (out->nothing_to_do) return true;
  Distances apart;
  Region of_d;
  return place_operand(kD, known.d, {out->dims.batch, m, d.n}, {&apart.leading, &apart.batch, &of_d}, why) &&
         (known_disjoint(of_d, line_at(d.m_device, sizeof *d.m_device)) ||
          refuse(why, overlaps("m_device", false)));
}

// Where the encoded A lies.
absl::Status place_scaled_a(const lathe_matmul_desc& d, const Dims& dims, ScaledOperand* a, Region* region) {
  absl::Status why;
  Distances apart;
  if (!place_codes(d.a, {dims.batch, dims.m, dims.k}, {&apart.leading, &apart.batch, region}, &why))
    return why;
  a->elements = {static_cast<const char*>(d.a.data), apart.leading, apart.batch};
  return absl::OkStatus();
}

absl::Status check_scales_overlap(const Request& request, const Region& d) {
  const Dims& dims = request.dims;
  const StoredScales &a = request.scaled->a.scales, &b = request.scaled->b.scales;
  const auto line = [](const StoredScales& s, int64_t lines, int64_t batch) {
    return line_at(s.data, s.format == nullptr ? 0 : s.span(lines, scale_matrices(s, batch)));
  };
  const auto global = [](const StoredScales& s) {
    return line_at(s.global, s.global == nullptr ? 0 : int64_t{sizeof *s.global});
  };
  const std::pair<const char*, Region> read[] = {{"the scale of a", line(a, dims.m, dims.batch)},
                                                 {"the scale of b", line(b, dims.n, dims.batch)},
                                                 {"the global scale of a", global(a)},
                                                 {"the global scale of b", global(b)}};
  for (const auto& [name, region] : read)
    if (!known_disjoint(d, region)) return overlaps(name, false);
  return absl::OkStatus();
}

// A block has one place for its scale, but could be part of two matrices.
absl::Status check_blocks_overlap(const Request& request, const Region& b) {
  if (request.args.stride_b == 0 || disjoint_within(b)) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("b: batch_stride ", request.args.stride_b,
                   ": matrices with block scales must not overlap each other, unless it is 0"));
}

// A GPU reads the scales where they are. `plain` was read for Purpose::kRun.
absl::Status place_scales(const lathe_matmul_desc& plain, Request* out) {
  if (out->nothing_to_do || out->zero_product) return absl::OkStatus();
  Regions regions;
  absl::Status why;
  if (!place_operands(plain, out, &regions, &why)) return why;
  LATHE_RETURN_IF_ERROR(check_blocks_overlap(*out, regions.b));
  LATHE_RETURN_IF_ERROR(check_scales_overlap(*out, regions.d));
  set_scale_arguments(*out->scaled, &out->args);
  return absl::OkStatus();
}

// A product with block scales: reads it as one without, and keeps the scales in `out`.
absl::Status try_scaled(const lathe_matmul_desc& d, Purpose purpose, const RequestContext& context,
                        void* stream, Request* out) {
  lathe_matmul_desc plain;
  ScaledProduct scaled;
  absl::Status why;
  LATHE_RETURN_IF_ERROR(read_scaled(d, purpose, context.devices(), &scaled, &plain));
  out->scaled = scaled;
  const Purpose as = context.is_cpu && purpose == Purpose::kRun ? Purpose::kPlan : purpose;
  if (!read(plain, as, context, stream, out, &why)) return why;
  if (!context.is_cpu) return purpose == Purpose::kRun ? place_scales(plain, out) : absl::OkStatus();
  Region a = line_at(nullptr, 0);
  if (scaled.a.exists()) {
    LATHE_RETURN_IF_ERROR(place_scaled_a(d, out->dims, &scaled.a, &a));
    out->spans.a = a.bytes;
  }
  out->scaled = scaled;
  if (purpose != Purpose::kRun) return absl::OkStatus();
  if (stream != nullptr) return invalid("the stream is not NULL; the CPU has no streams");
  if (out->nothing_to_do) return absl::OkStatus();
  if (!check_pointers(plain, *out, &why)) return why;
  Regions regions;
  if (!place_operands(plain, out, &regions, &why)) return why;
  if (scaled.a.exists()) regions.a = a;
  LATHE_RETURN_IF_ERROR(check_blocks_overlap(*out, regions.b));
  if (!check_overlap(out->key.problem, regions, &why)) return why;
  LATHE_RETURN_IF_ERROR(check_scales_overlap(*out, regions.d));
  fill_arguments(plain, *out, &out->args);
  return absl::OkStatus();
}
[[gnu::cold]] bool take_scaled(const lathe_matmul_desc& d, Purpose purpose, const RequestContext& context,
                               void* stream, Request* out, absl::Status* why) {
  *why = try_scaled(d, purpose, context, stream, out);
  return why->ok();
}

bool read(const lathe_matmul_desc& d, Purpose purpose, const RequestContext& context, void* stream,
          Request* out, absl::Status* why) {
  if (__builtin_expect(d.m_device != nullptr, 0) && context.is_cpu && !context.is_described &&
      purpose == Purpose::kRun)
    return read_known_m(d, context, stream, out, why);
  if (!headers_plain(d)) return refuse(why, explain_headers(d));
  if (__builtin_expect(is_quantised(d), 0) && has_block_scales(d))
    return take_scaled(d, purpose, context, stream, out, why);
  if (d.next != nullptr && !read_chain(d.next, out, why)) return false;
  if (!read_policy(d.miss_policy, context, out, why)) return false;
  if (!read_dependent_launch(d.dependent_launch, context, out, why)) return false;
  if (!read_class(d, context.devices(), &out->key.problem, why)) return false;
  if (__builtin_expect(is_quantised(d), 0) && !read_quantisation(d, purpose, context.devices(), out, why))
    return false;
  if (!read_dims(d, purpose, out, why)) return false;
  // A manifest is for any device; CPUs drop the Rows.
  if (d.m_device != nullptr && (!context.is_cpu || purpose == Purpose::kWarm))
    out->key.problem.rows = Rows::kDeviceM;
  Regions regions;
  if (!place_operands(d, out, &regions, why)) return false;
  // A weight is warmed up and packed for every M. The distances of D are for the one in `d`, which may be 0.
  if (purpose != Purpose::kWarm && !disjoint_within(regions.d))
    return refuse(why, explain_overlap(kD, {&out->args.ldd, &out->args.stride_d, &regions.d}));
  if (!context.is_cpu) {
    if (out->empty_product) become_zero_product(out);
    align_class(regions, purpose == Purpose::kRun, out);
  }
  out->spans = {regions.a.bytes,
                regions.b.bytes,
                regions.c.bytes,
                regions.d.bytes,
                regions.bias.bytes,
                regions.residual.bytes,
                0};
  if (purpose != Purpose::kRun) return true;

  if (context.is_cpu && stream != nullptr)
    return refuse(why, invalid("the stream is not NULL; the CPU has no streams"));
  out->stream = stream;
  if (out->nothing_to_do) return true;
  if (!check_pointers(d, *out, why)) return false;
  if (!check_overlap(out->key.problem, regions, why)) return false;
  if (__builtin_expect(is_quantised(d), 0) && !check_quantisation(*out, regions.d, why)) return false;
  if (d.m_device != nullptr && !known_disjoint(regions.d, line_at(d.m_device, sizeof *d.m_device)))
    return refuse(why, overlaps("m_device", false));
  fill_arguments(d, *out, &out->args);
  return true;
}

// For messages. Unknown enum values show as "none".
[[gnu::cold]] std::string describe(const lathe_matmul_desc& d) {
  ProblemClass c;
  c.a = known_dtype(d.a.dtype);
  c.b = known_dtype(d.b.dtype);
  c.d = known_dtype(d.d.dtype);
  c.trans_a = raw(d.a.layout) == LATHE_COLUMN_MAJOR;
  c.trans_b = raw(d.b.layout) == LATHE_COLUMN_MAJOR;
  c.packed_b = d.b.packed_layout != 0;
  return describe(c, Dims{d.m, d.n, d.k, d.batch});
}

}  // namespace

absl::Status read_member_product(const lathe_matmul_desc& desc, Purpose purpose,
                                 const RequestContext& context, Request* out) {
  absl::Status why;
  if (read(desc, purpose, context, nullptr, out, &why)) return absl::OkStatus();
  return why;
}

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
