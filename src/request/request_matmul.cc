#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/packed.h"
#include "request/request.h"

namespace lathe {
namespace {

constexpr OperandName kC = {"c", "ldc", "m", "n"};
constexpr OperandName kD = {"d", "ldd", "m", "n"};
constexpr OperandName kResidual = {"residual", "ldr", "m", "n"};

// C, bias and residual only where the class has one: of the others only their bytes are set, to 0.
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
       reinterpret_cast<uintptr_t>(d.m_device)) == 0;
  return epilogue_plain && plain_factor(d.a) && plain_or_packed_factor(d.b) && plain(d.c) && plain(d.d) &&
         plain(e.residual);
}

[[gnu::cold]] absl::Status explain_headers(const lathe_matmul_desc& d) {
  if (!plain_factor(d.a)) return explain_operand("a", d.a);
  if (!plain_or_packed_factor(d.b)) return explain_operand("b", d.b);
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
[[gnu::always_inline]] inline bool check_row_operand(const OperandName& name, const lathe_operand& o,
                                                     absl::Status* why) {
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
  const bool bytes = raw(d.a.dtype) == LATHE_I8;
  if (is_float(d.d.dtype) || raw(d.d.dtype) != LATHE_I32 || !bytes) {
    if (bytes && !is_float(d.d.dtype))
      return refuse(why, explain_dtype(kD.name, d.d.dtype, absl::StrCat(kFloatNames, ", i32")));
    return check_row_operand(kD, d.d, why);
  }
  const lathe_epilogue& e = d.epilogue;
  if (e.alpha != 1.0f || e.beta != 0.0f || e.bias != nullptr || raw(e.activation) != LATHE_ACTIVATION_NONE ||
      e.residual.data != nullptr) {
    return refuse(why, explain_sums(e));
  }
  return d.d.layout == LATHE_ROW_MAJOR || refuse(why, column_major(kD));
}

// A float by B of 4 bits in blocks.
bool is_block_product(const lathe_matmul_desc& d) {
  return is_blocks(d.b.dtype) && is_float(d.a.dtype) && d.b.layout == LATHE_COLUMN_MAJOR;
}

[[gnu::cold]] absl::Status explain_enums(const lathe_matmul_desc& d, bool is_cpu) {
  if (!is_factor(d.a.dtype)) return explain_dtype("a", d.a.dtype, kFactorNames);
  if (is_blocks(d.b.dtype)) {
    if (!is_float(d.a.dtype))
      return absl::UnimplementedError(absl::StrCat("a: b q4_0 is multiplied by ", kFloatNames, " alone"));
    if (d.b.layout != LATHE_COLUMN_MAJOR)
      return absl::UnimplementedError("b: q4_0 has its blocks along K: only COLUMN_MAJOR is supported");
  } else if (!is_factor(d.b.dtype)) {
    return explain_dtype("b", d.b.dtype, absl::StrCat(kFactorNames, ", q4_0"));
  } else if (!are_multiplied(d.a.dtype, d.b.dtype, is_cpu)) {
    return explain_factors(d.a.dtype, d.b.dtype);
  }
  if (raw(d.epilogue.activation) > LATHE_ACTIVATION_SILU) {
    return invalid(absl::StrCat("activation ", raw(d.epilogue.activation), " is unknown"));
  }
  if (raw(d.determinism) > LATHE_DETERMINISM_BATCH_INVARIANT) {
    return invalid(absl::StrCat("determinism ", raw(d.determinism), " is unknown"));
  }
  return invalid(absl::StrCat("math ", raw(d.math), " is unknown"));
}

// A packed B: K runs along it as in COLUMN_MAJOR, panel by panel or column by column (core/packed.h).
bool read_packed(const lathe_operand& b, int64_t n, bool is_cpu, ProblemClass* out, absl::Status* why) {
  if (!is_cpu) return refuse(why, absl::UnimplementedError("b: packed_layout: on the CPU alone"));
  absl::StatusOr<PackedLayout> layout = packed_layout_with_id(b.packed_layout, out->b);
  if (!layout.ok())
    return refuse(why, absl::InvalidArgumentError(absl::StrCat("b: ", layout.status().message())));
  if (*layout != packed_layout_of(n))
    return refuse(why, invalid(absl::StrCat("b: packed_layout 0x", absl::Hex(b.packed_layout),
                                            " is not that of ", n, " columns")));
  if (b.leading_dimension != 0)
    return refuse(
        why, invalid(absl::StrCat("b: packed, its leading_dimension ", b.leading_dimension, " is not 0")));
  if (*layout == kColumns16) out->packed_b = *layout;  // the other is a plain B
  out->trans_b = 1;
  return true;
}

bool read_class(const lathe_matmul_desc& d, bool is_cpu, ProblemClass* out, absl::Status* why) {
  const lathe_epilogue& e = d.epilogue;
  if (!is_factor(d.a.dtype) || (!are_multiplied(d.a.dtype, d.b.dtype, is_cpu) && !is_block_product(d)) ||
      raw(e.activation) > LATHE_ACTIVATION_SILU || raw(d.determinism) > LATHE_DETERMINISM_BATCH_INVARIANT ||
      raw(d.math) > LATHE_MATH_BF16) {
    return refuse(why, explain_enums(d, is_cpu));
  }
  if (!check_output(d, why)) return false;
  out->op = Op::kMatmul;
  out->a = to_dtype(d.a.dtype);
  out->b = to_dtype(d.b.dtype);
  out->d = to_dtype(d.d.dtype);
  out->trans_a = d.a.layout == LATHE_COLUMN_MAJOR;
  out->trans_b = d.b.layout == LATHE_COLUMN_MAJOR;
  if (d.b.packed_layout != 0 && !read_packed(d.b, d.n, is_cpu, out, why)) return false;
  out->activation = static_cast<Activation>(e.activation);
  out->determinism = static_cast<Determinism>(d.determinism);
  read_math(d.math, out);
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

// B in blocks along K: what distances it has are of whole blocks.
[[gnu::cold]] bool place_blocks(const lathe_operand& b, const Dims& dims, const Placement& out,
                                absl::Status* why) {
  constexpr int64_t kBlock = block_elements(DType::kQ4_0);
  const Distances apart = distances_of(b, {dims.batch, dims.n, dims.k});
  const std::pair<const char*, int64_t> distances[] = {
      {"k", dims.k}, {"ldb", apart.leading}, {"b: batch_stride", apart.batch}};
  for (const auto& [name, distance] : distances) {
    if (distance % kBlock == 0) continue;
    return refuse(why, invalid(absl::StrCat(name, " ", distance, " is no multiple of ", kBlock,
                                            ", the elements of a block of q4_0")));
  }
  constexpr auto kBytes = static_cast<int64_t>(size_of(DType::kQ4_0));
  if (!place_lines(b, {dims.batch, dims.n, dims.k / kBlock}, {apart.leading / kBlock, apart.batch / kBlock},
                   kBytes, out))
    return refuse(why, explain_distance(kOperandB, LATHE_COLUMN_MAJOR, apart, dims.k));
  *out.leading = apart.leading;
  *out.stride = apart.batch;
  return true;
}

// Panels: a line for each matrix of the batch.
bool place_packed(const lathe_operand& b, const Dims& dims, const ProblemClass& c, const Placement& out,
                  absl::Status* why) {
  if (c.packed_b == kNotPacked) {
    lathe_operand rows = b;
    rows.layout = LATHE_COLUMN_MAJOR;
    rows.leading_dimension = packed_pitch(dims.k, c.b);
    return place_operand(kOperandB, rows, {dims.batch, dims.k, dims.n}, out, why);
  }
  const int64_t elements = packed_elements(kColumns16, dims.k, dims.n, c.b);
  const Matrices lines = {dims.batch, 1, elements};
  const Distances apart = distances_of(b, lines);
  if (!place_lines(b, lines, apart, static_cast<int64_t>(size_of(c.b)), out))
    return refuse(why, explain_distance(kOperandB, LATHE_COLUMN_MAJOR, apart, elements));
  *out.leading = dims.k;
  if (dims.batch > 1 && apart.batch != 0 && apart.batch < elements) {
    return refuse(why, invalid(absl::StrCat("b: packed, its batch_stride ", apart.batch,
                                            " is less than a matrix of ", elements, " elements")));
  }
  return true;
}

bool place_operands(const lathe_matmul_desc& d, Request* out, Regions* r, absl::Status* why) {
  const ProblemClass& c = out->key.problem;
  const auto [m, n, k, batch] = out->dims;
  ArgumentBlock& args = out->args;
  const Placement b = {&args.ldb, &args.stride_b, &r->b}, of_d = {&args.ldd, &args.stride_d, &r->d};
  const Matrices rows = {batch, m, n};
  if (!place_operand(kOperandA, d.a, {batch, m, k}, {&args.lda, &args.stride_a, &r->a}, why)) return false;
  if (__builtin_expect(is_blocks(d.b.dtype), 0)) {
    if (!place_blocks(d.b, out->dims, b, why)) return false;
  } else if (d.b.packed_layout != 0) {
    if (!place_packed(d.b, out->dims, c, b, why)) return false;
  } else if (!place_operand(kOperandB, d.b, {batch, k, n}, b, why)) {
    return false;
  }
  if (!place_operand(kD, d.d, rows, of_d, why)) return false;
  if (c.c != DType::kNone && !place_operand(kC, d.c, rows, {&args.ldc, &args.stride_c, &r->c}, why))
    return false;
  if (c.residual != DType::kNone &&
      !place_operand(kResidual, d.epilogue.residual, rows, {&args.ldr, &args.stride_r, &r->residual}, why)) {
    return false;
  }
  if (c.bias != DType::kNone) r->bias = line_at(d.epilogue.bias, n * static_cast<int64_t>(size_of(c.bias)));
  if (!disjoint_within(r->d)) return refuse(why, explain_overlap(kD, of_d));
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
  args->m = static_cast<int32_t>(dims.m);
  args->n = static_cast<int32_t>(dims.n);
  args->k = static_cast<int32_t>(dims.k);
  args->batch = static_cast<int32_t>(dims.batch);
  args->alpha = d.epilogue.alpha;
  args->beta = d.epilogue.beta;
}

// Whether B is in blocks, or A or B has a scale or a zero point.
bool is_quantised(const lathe_matmul_desc& d) {
  return is_blocks(d.b.dtype) ||
         (reinterpret_cast<uintptr_t>(d.a.scale) | reinterpret_cast<uintptr_t>(d.b.scale) |
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
  if (s->next != nullptr) return refused("no chain element is known here");
  if (raw(o.dtype) != LATHE_I8) return refused("only operands of i8 have one");
  if (raw(s->dtype) != LATHE_F32) return explain_dtype(absl::StrCat(name, ": scale"), s->dtype, "f32");
  if (raw(s->granularity) > LATHE_PER_BLOCK) return bad("granularity ", raw(s->granularity), " is unknown");
  if (s->granularity == LATHE_PER_BLOCK) return refused("granularity PER_BLOCK is reserved");
  if (s->block_size != 0) return bad("block_size ", s->block_size, " without PER_BLOCK");
  if (purpose == Purpose::kRun && s->data == nullptr) return bad("data is NULL");
  *granularity = s->granularity == LATHE_PER_TENSOR ? Scale::kPerTensor : Scale::kPerChannel;
  *data = const_cast<void*>(s->data);
  return absl::OkStatus();
}

absl::Status explain_quantisation(const lathe_matmul_desc& d, Purpose purpose, bool is_cpu, Request* out) {
  ProblemClass& c = out->key.problem;
  ArgumentBlock& args = out->args;
  if (!is_cpu) {
    return absl::UnimplementedError(is_blocks(d.b.dtype)
                                        ? "b: q4_0 has kernels on the CPU alone"
                                        : "scales and zero points have kernels on the CPU alone");
  }
  LATHE_RETURN_IF_ERROR(read_scale("a", d.a, purpose, &c.scale_a, &args.scale_a));
  LATHE_RETURN_IF_ERROR(read_scale("b", d.b, purpose, &c.scale_b, &args.scale_b));
  if (c.d == DType::kI32 && (d.a.scale != nullptr || d.b.scale != nullptr))
    return invalid("d i32 holds the exact sums of i8 products: scales need a float");
  for (const auto& [name, o] : {std::pair{"a", &d.a}, {"b", &d.b}})
    if (o->zero_point != nullptr && raw(o->dtype) != LATHE_I8)
      return absl::UnimplementedError(absl::StrCat(name, ": zero_point: only operands of i8 have one"));
  c.zero_a = d.a.zero_point != nullptr;
  args.zero_a = const_cast<void*>(d.a.zero_point);
  // As many as there are scales.
  if (d.b.zero_point != nullptr) c.zero_b = c.scale_b == Scale::kPerChannel ? c.scale_b : Scale::kPerTensor;
  args.zero_b = const_cast<void*>(d.b.zero_point);
  return absl::OkStatus();
}
[[gnu::cold]] bool read_quantisation(const lathe_matmul_desc& d, Purpose purpose, bool is_cpu, Request* out,
                                     absl::Status* why) {
  *why = explain_quantisation(d, purpose, is_cpu, out);
  return why->ok();
}

// D apart from the scales and the zero points.
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
          Request* out, absl::Status* why) {
  if (!headers_plain(d)) return refuse(why, explain_headers(d));
  if (d.next != nullptr && !read_chain(d.next, out, why)) return false;
  if (!read_policy(d.miss_policy, context, out, why)) return false;
  if (!read_dependent_launch(d.dependent_launch, context, out, why)) return false;
  if (!read_class(d, context.is_cpu, &out->key.problem, why)) return false;
  if (__builtin_expect(is_quantised(d), 0) && !read_quantisation(d, purpose, context.is_cpu, out, why))
    return false;
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
  if (__builtin_expect(is_quantised(d), 0) && !check_quantisation(*out, regions.d, why)) return false;
  fill_arguments(d, *out, &out->args);
  out->spans = {regions.a.bytes,
                regions.b.bytes,
                regions.c.bytes,
                regions.d.bytes,
                regions.bias.bytes,
                regions.residual.bytes,
                0};
  return true;
}

// For messages.
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
