#include "request/request_grouped_matmul.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/packed.h"
#include "request/request_scaled.h"

namespace lathe {
namespace {

absl::Status invalid(const std::string& cause) { return absl::InvalidArgumentError(cause); }

absl::Status check_header(const lathe_grouped_matmul_desc& d) {
  if (d.reserved != 0 || d.reserved2 != 0) return absl::UnimplementedError("reserved is not 0");
  if (raw(d.grouping) > LATHE_GROUPING_INDEXED)
    return invalid(absl::StrCat("grouping ", raw(d.grouping), " is unknown"));
  if (raw(d.gate) > LATHE_GATE_CLAMPED) return invalid(absl::StrCat("gate ", raw(d.gate), " is unknown"));
  if (raw(d.gate_layout) > LATHE_GATE_INTERLEAVED)
    return invalid(absl::StrCat("gate_layout ", raw(d.gate_layout), " is unknown"));
  if (d.gate == LATHE_GATE_NONE && d.gate_layout != LATHE_GATE_HALVES)
    return invalid("gate_layout must be HALVES without a gate");
  if (d.epilogue.beta != 0.0f)
    return absl::UnimplementedError(
        absl::StrCat("epilogue: beta ", d.epilogue.beta, " is not 0; a grouped product has no C"));
  if (d.epilogue.residual.data != nullptr)
    return absl::UnimplementedError("epilogue: a grouped product has no residual");
  if (d.epilogue.combine != LATHE_COMBINE_ADD)
    return invalid("epilogue: combine must be ADD; a grouped product has no residual");
  if (raw(d.a.layout) != LATHE_ROW_MAJOR) return absl::UnimplementedError("a: only ROW_MAJOR is supported");
  return absl::OkStatus();
}

absl::Status check_gate(const lathe_grouped_matmul_desc& d) {
  if (d.gate == LATHE_GATE_NONE) return absl::OkStatus();
  if (d.epilogue.activation != LATHE_ACTIVATION_NONE)
    return invalid("epilogue: activation must be NONE with a gate");
  if (d.n % 2 != 0) return invalid(absl::StrCat("n ", d.n, " must be even with a gate"));
  if (to_dtype(d.b.dtype) == DType::kI8) return absl::UnimplementedError("gate: B of i8 is not supported");
  if (d.gate_layout == LATHE_GATE_INTERLEAVED) {
    if (d.b.layout != LATHE_COLUMN_MAJOR || d.b.packed_layout != 0)
      return absl::UnimplementedError(
          "gate_layout INTERLEAVED needs a B that is COLUMN_MAJOR and not packed");
  } else if (d.b.packed_layout != 0 && d.n / 2 % kPackedColumns != 0) {
    return absl::UnimplementedError(
        absl::StrCat("gate: n / 2 of a packed B must be a multiple of ", kPackedColumns, ", not ", d.n / 2));
  }
  return absl::OkStatus();
}

absl::Status check_sizes(const lathe_grouped_matmul_desc& d) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"m", d.m}, {"n", d.n}, {"k", d.k}, {"groups", d.groups}, {"used", d.used}};
  for (const auto& [name, size] : sizes)
    if (size < 0 || size > kMaxDim)
      return invalid(absl::StrCat(name, " ", size, " is not in [0, ", kMaxDim, "]"));
  const bool indexed = d.grouping == LATHE_GROUPING_INDEXED;
  if (!indexed) {
    if (d.used != 1) return invalid(absl::StrCat("used ", d.used, " must be 1, except with INDEXED"));
    if (d.routing_stride != 0)
      return invalid(absl::StrCat("routing_stride ", d.routing_stride, " must be 0, except with INDEXED"));
    if (d.router_weights != nullptr) return invalid("router_weights must be NULL, except with INDEXED");
  }
  if (d.router_weights == nullptr && d.router_weights_stride != 0)
    return invalid(
        absl::StrCat("router_weights_stride ", d.router_weights_stride, " must be 0 without router_weights"));
  const std::pair<const char*, int64_t> strides[] = {{"routing_stride", d.routing_stride},
                                                     {"router_weights_stride", d.router_weights_stride}};
  constexpr int64_t kMost = INT64_MAX >> 3;  // no sum of distances in bytes overflows
  for (const auto& [name, stride] : strides) {
    if (stride != 0 && stride < d.used)
      return invalid(absl::StrCat(name, " ", stride, " is neither 0 nor at least used ", d.used));
    if (d.m > 1 && stride > kMost / (d.m - 1))
      return invalid(
          absl::StrCat(name, " ", stride, ": the rows of m ", d.m, " span more than 2^63 - 1 bytes"));
  }
  const int64_t slots = d.grouping == LATHE_GROUPING_COUNTS ? d.m * d.groups : d.m * d.used;
  if (slots > kMaxDim)
    return invalid(absl::StrCat(indexed ? "m * used is " : "m * groups is ", slots, ", more than ", kMaxDim));
  return absl::OkStatus();
}

// Reads the class, B's distances and the epilogue as those of a batch of all groups' B, with every row of A.
absl::Status read_member(const lathe_grouped_matmul_desc& d, Purpose purpose, const RequestContext& context,
                         Request* out) {
  lathe_matmul_desc member = LATHE_MATMUL_DESC_INIT;
  member.next = d.next;
  member.m = d.m;
  member.n = d.n;
  member.k = d.k;
  member.batch = d.groups;
  member.a = d.a;
  member.a.batch_stride = 0;
  member.b = d.b;
  member.d = d.d;
  if (d.router_weights != nullptr || d.gate != LATHE_GATE_NONE) member.d.dtype = LATHE_F32;
  // D's real distances are checked by place_d(). These are of rows and matrices one after the other.
  member.d.leading_dimension = 0;
  member.d.batch_stride = d.m * d.n;
  member.epilogue = d.epilogue;
  member.determinism = d.determinism;
  member.miss_policy = d.miss_policy;
  member.math = d.math;
  LATHE_RETURN_IF_ERROR(
      read_member_product(member, purpose == Purpose::kRun ? Purpose::kPlan : purpose, context, out));
  if (out->key.split_k != 0 || (context.is_cpu && out->key.candidate != 0))
    return absl::UnimplementedError(
        "a lathe_tuning cannot be chained to a grouped product, except for a candidate on a GPU");
  if (out->key.external != ExternalUse::kDefault)
    return absl::UnimplementedError("a lathe_external cannot be chained to a grouped product");
  out->workspace = nullptr;
  out->workspace_bytes = 0;
  return absl::OkStatus();
}

Activation activation_of(lathe_gate gate) {
  switch (gate) {
    case LATHE_GATE_SILU: return Activation::kSilu;
    case LATHE_GATE_GELU: return Activation::kGelu;
    case LATHE_GATE_GELU_TANH: return Activation::kGeluTanh;
    case LATHE_GATE_RELU: return Activation::kRelu;
    case LATHE_GATE_CLAMPED: return Activation::kSiluClamped;
    default: return Activation::kNone;
  }
}

// Divides the product with all of B into those with g and u.
void split_gate(const lathe_grouped_matmul_desc& d, DType result, GroupedRequest* out) {
  const int64_t half = d.n / 2;
  const bool interleaved = d.gate_layout == LATHE_GATE_INTERLEAVED;
  GroupProduct& gate = out->product;
  ProblemClass& c = gate.request.key.problem;
  gate.request.dims.n = c.n = half;
  // Elements from g's first column to u's. Packed columns of layout kColumns16 lie in panels.
  int64_t apart = interleaved ? 1 : half;
  if (c.packed_b == kColumns16)
    apart = packed_elements(kColumns16, d.k, half, c.b);
  else if (c.trans_b != 0)
    apart *= gate.request.args.ldb;
  if (interleaved) gate.request.args.ldb *= 2;
  GroupProduct& up = out->up.emplace(gate);
  up.b_offset = apart / block_elements(c.b) * static_cast<int64_t>(size_of(c.b));
  up.first_column = interleaved ? 1 : half;
  up.column_step = gate.column_step = interleaved ? 2 : 1;
  if (d.gate == LATHE_GATE_CLAMPED) up.request.key.problem.activation = Activation::kClampPlusOne;
  c.activation = activation_of(d.gate);
  c.combine = Combine::kMultiply;
  c.residual = DType::kF32;
  c.d = result;
}

// The batch and rows of A or D, and how slots are numbered over them.
Matrices matrices_of(const lathe_grouped_matmul_desc& d, int64_t columns, bool summed) {
  switch (d.grouping) {
    case LATHE_GROUPING_COUNTS: return {d.groups, d.m, columns};
    case LATHE_GROUPING_INDEXED: return {summed ? 1 : d.used, d.m, columns};
    default: return {1, d.m, columns};
  }
}
SlotPlaces slot_places(lathe_grouping grouping, const Distances& apart, int64_t element_bytes) {
  const int64_t line = apart.leading * element_bytes, matrix = apart.batch * element_bytes;
  if (grouping == LATHE_GROUPING_COUNTS) return {matrix, line};
  return {line, matrix};
}

absl::Status place(const OperandName& name, const lathe_operand& o, const Matrices& lines,
                   lathe_grouping grouping, SlotPlaces* places, Region* region) {
  Distances apart;
  absl::Status why;
  if (!place_operand(name, o, lines, {&apart.leading, &apart.batch, region}, &why)) return why;
  *places = slot_places(grouping, apart, static_cast<int64_t>(size_of(static_cast<DType>(o.dtype))));
  return absl::OkStatus();
}

// A. Elements of a scaled A are decoded from their bytes.
absl::Status place_a(const lathe_grouped_matmul_desc& d, GroupedRequest* out, Region* region) {
  Matrices lines = matrices_of(d, d.k, false);
  const auto& scaled = out->product.request.scaled;
  if (!scaled || !scaled->a.exists()) return place(kOperandA, d.a, lines, d.grouping, &out->a, region);
  lathe_operand bytes;
  LATHE_RETURN_IF_ERROR(bytes_of_elements(d.a, &lines, &bytes));
  return place(kOperandA, bytes, lines, d.grouping, &out->a, region);
}

absl::Status place_d(const lathe_grouped_matmul_desc& d, GroupedRequest* out, Region* region) {
  if ((out->is_summed() || out->up) && !is_float(d.d.dtype)) return explain_dtype("d", d.d.dtype, kFloats);
  if (raw(d.d.layout) != LATHE_ROW_MAJOR) return absl::UnimplementedError("d: only ROW_MAJOR is supported");
  const OperandName name = {"d", "ldd", "m", "n"};
  Distances apart;
  absl::Status why;
  if (!place_operand(name, d.d, matrices_of(d, out->product.request.dims.n, out->is_summed()),
                     {&apart.leading, &apart.batch, region}, &why))
    return why;
  if (!disjoint_within(*region)) return explain_overlap(name, {&apart.leading, &apart.batch, region});
  const auto bytes = static_cast<int64_t>(size_of(static_cast<DType>(d.d.dtype)));
  out->d = slot_places(d.grouping, apart, bytes);
  out->sum_row_bytes = apart.leading * bytes;
  return absl::OkStatus();
}

absl::Status check_pointers(const lathe_grouped_matmul_desc& d, const GroupedRequest& r) {
  if (r.product.request.reads_operands()) {
    if (d.a.data == nullptr) return invalid("a is NULL");
    if (d.b.data == nullptr) return invalid("b is NULL");
  }
  if (d.d.data == nullptr) return invalid("d is NULL");
  if (d.routing == nullptr) return invalid("routing is NULL");
  const bool reads_scales = r.product.request.reads_operands() || !r.product.request.scaled;
  if (reads_scales && d.a.scale != nullptr && d.a.scale->data == nullptr)
    return invalid("a: scale: data is NULL");
  if (reads_scales && d.b.scale != nullptr && d.b.scale->data == nullptr)
    return invalid("b: scale: data is NULL");
  return absl::OkStatus();
}

// Where the block scales of an operand are; empty without them.
Region block_scales(const Request& product, bool of_a, int64_t lines, int64_t matrices) {
  if (!product.scaled) return line_at(nullptr, 0);
  const StoredScales& s = of_a ? product.scaled->a.scales : product.scaled->b.scales;
  return line_at(s.data, s.format == nullptr ? 0 : s.span(lines, scale_matrices(s, matrices)));
}

// Where the factor of all scales of an operand is.
Region global_scales(const Request& product, bool of_a, int64_t count) {
  if (!product.scaled) return line_at(nullptr, 0);
  const float* global = of_a ? product.scaled->a.scales.global : product.scaled->b.scales.global;
  return line_at(global, global == nullptr ? 0 : count * int64_t{sizeof *global});
}

// The rows of A that have a scale of their own. With INDEXED the slots of a token may share a row.
int64_t scaled_rows(const GroupedRequest& r) {
  return r.grouping == LATHE_GROUPING_INDEXED && r.a.inner_bytes == 0 ? r.m : r.slots;
}

// The number of scales or zero points of B of one group.
int64_t channels(Scale s, int64_t n) { return s == Scale::kPerChannel ? n : int64_t{s == Scale::kPerTensor}; }

absl::Status check_overlap(const lathe_grouped_matmul_desc& d, const GroupedRequest& r, const Region& a,
                           const Region& of_d) {
  const Request& product = r.product.request;
  const ProblemClass& c = product.key.problem;
  const int64_t routing = d.grouping == LATHE_GROUPING_OFFSETS   ? d.groups + 1
                          : d.grouping == LATHE_GROUPING_COUNTS  ? d.groups
                          : d.grouping == LATHE_GROUPING_INDEXED ? (d.m - 1) * r.routing_stride + d.used
                                                                 : d.m;
  const int64_t weights = r.is_summed() ? (d.m - 1) * r.weights_stride + d.used : 0;
  const bool reads = product.reads_operands();
  const std::pair<const char*, Region> inputs[] = {
      {"a", reads ? a : line_at(nullptr, 0)},
      {"b", line_at(d.b.data, reads ? product.spans.b : 0)},
      {"bias", line_at(r.bias, d.groups * r.bias_stride)},
      {"routing", line_at(d.routing, routing * 4)},
      {"router_weights", line_at(d.router_weights, weights * 4)},
      {"the scale of a",
       line_at(product.args.scale_a,
               (c.scale_a == Scale::kPerChannel ? scaled_rows(r) : channels(c.scale_a, 1)) * 4)},
      {"the scale of b", line_at(product.args.scale_b, d.groups * r.scale_b_stride)},
      {"the scale of a", block_scales(product, /*of_a=*/true, d.m, r.scale_matrices())},
      {"the scale of b", block_scales(product, /*of_a=*/false, d.n, d.groups)},
      {"the global scale of a", global_scales(product, /*of_a=*/true, 1)},
      {"the global scale of b", global_scales(product, /*of_a=*/false, d.groups)},
      {"the zero point of a", line_at(product.args.zero_a, c.zero_a * int64_t{4})},
      {"the zero point of b", line_at(product.args.zero_b, d.groups * r.zero_b_stride)}};
  for (const auto& [name, region] : inputs)
    if (!known_disjoint(of_d, region)) return invalid(absl::StrCat("d overlaps ", name));
  return absl::OkStatus();
}

Rows rows_of(const lathe_grouped_matmul_desc& d) {
  if (d.router_weights != nullptr) {
    const DType sum = to_dtype(d.d.dtype);
    return sum == DType::kF32 ? Rows::kSumF32 : sum == DType::kF16 ? Rows::kSumF16 : Rows::kSumBF16;
  }
  switch (d.grouping) {
    case LATHE_GROUPING_OFFSETS: return Rows::kOffsets;
    case LATHE_GROUPING_ROW_IDS: return Rows::kRowIds;
    case LATHE_GROUPING_COUNTS: return Rows::kCounts;
    default: return Rows::kIndexed;
  }
}

// Sets the Rows of the products. The rows of u are never summed.
void set_rows(const lathe_grouped_matmul_desc& d, GroupedRequest* r) {
  const Rows rows = rows_of(d);
  r->product.request.key.problem.rows = rows;
  if (r->up) r->up->request.key.problem.rows = sum_of(rows) == DType::kNone ? rows : Rows::kIndexed;
}

Bucket bucket_of_mean(const GroupedRequest& r) {
  return m_bucket(ceil_div(r.slots, std::max<int64_t>(r.groups, 1)));
}

// On a GPU all groups are one launch, so a product has one class: for the mean rows of a group, and the alignment of
// all rows.
void plan_for_mean(const lathe_grouped_matmul_desc& d, const Region& a, const Region& of_d, Purpose purpose,
                   GroupedRequest* r) {
  const Request& product = r->product.request;
  const ProblemClass& c = product.key.problem;
  Region b = line_at(d.b.data, 0);
  b.pitch = product.args.ldb / block_elements(c.b) * static_cast<int64_t>(size_of(c.b));
  b.stride = r->b_stride;
  b.count = r->groups;
  OperandAlignment alignment(/*with_pointers=*/purpose == Purpose::kRun);
  align_product(product, a, b, &alignment);
  align_scales(product, &alignment);
  alignment.add(of_d, to_dtype(d.d.dtype));
  if (r->up) alignment.add_distance(r->up->b_offset);
  if (c.bias != DType::kNone) alignment.add(line_at(d.epilogue.bias, 0), c.bias);
  const Bucket bucket = bucket_of_mean(*r);
  for (Request* request : {&r->product.request, r->up ? &r->up->request : nullptr}) {
    if (request == nullptr) continue;
    ProblemClass& problem = request->key.problem;
    problem.m_lo = bucket.lo;
    problem.m_hi = bucket.hi;
    problem = with_alignment(problem, alignment.largest(), /*is_cpu=*/false);
    request->dims = {r->slots, problem.n, problem.k, r->groups};
  }
}

// On the CPU a group has the class of its own rows. A plan is for a group of the mean size, whose rows are listed if
// that many rows would not be copied.
void plan_mean_group(const lathe_grouped_matmul_desc& d, GroupedRequest* r) {
  Request& product = r->product.request;
  const Bucket bucket = bucket_of_mean(*r);
  product.key.problem.m_lo = bucket.lo;
  product.key.problem.m_hi = bucket.hi;
  product.dims.m = ceil_div(r->slots, std::max<int64_t>(r->groups, 1));
  product.dims.batch = 1;
  if (lists_rows(rows_of(d)) && bucket.lo >= kFewestListedRows) product.key.problem.rows = Rows::kIndexed;
}

// The arguments of every group.
void finish_arguments(const lathe_grouped_matmul_desc& d, Request* product) {
  ArgumentBlock& args = product->args;
  args.stride_a = args.stride_b = args.stride_d = 0;
  args.n = static_cast<int32_t>(product->dims.n);
  args.k = static_cast<int32_t>(d.k);
  args.batch = 1;
  args.alpha = d.epilogue.alpha;
  args.beta = 0.0f;
  product->dims.batch = 1;
}

absl::Status read(const lathe_grouped_matmul_desc& d, Purpose purpose, const RequestContext& context,
                  void* stream, GroupedRequest* out) {
  LATHE_RETURN_IF_ERROR(check_header(d));
  LATHE_RETURN_IF_ERROR(check_sizes(d));
  LATHE_RETURN_IF_ERROR(check_gate(d));
  Request& product = out->product.request;
  LATHE_RETURN_IF_ERROR(read_member(d, purpose, context, &product));
  const ProblemClass& c = product.key.problem;
  const int64_t b_elements = product.args.stride_b;
  out->b_lines = d.n;
  out->b_pitch = product.args.ldb;
  if (d.gate != LATHE_GATE_NONE)
    split_gate(d, d.router_weights != nullptr ? DType::kF32 : to_dtype(d.d.dtype), out);
  out->n = d.n;
  if (d.router_weights != nullptr) out->sum = to_dtype(d.d.dtype);
  out->grouping = d.grouping;
  out->m = d.m;
  out->groups = d.groups;
  out->used = d.used;
  out->inner = d.grouping == LATHE_GROUPING_COUNTS ? d.m : d.grouping == LATHE_GROUPING_INDEXED ? d.used : 1;
  out->slots = d.grouping == LATHE_GROUPING_COUNTS ? d.m * d.groups : d.m * d.used;
  out->routing = d.routing;
  out->routing_stride = d.routing_stride == 0 ? d.used : d.routing_stride;
  out->weights = d.router_weights;
  out->weights_stride = d.router_weights_stride == 0 ? d.used : d.router_weights_stride;
  out->nothing_to_do = product.nothing_to_do || d.used == 0;
  Region a, of_d;
  LATHE_RETURN_IF_ERROR(place_a(d, out, &a));
  LATHE_RETURN_IF_ERROR(place_d(d, out, &of_d));
  // A manifest is for any device; CPUs drop the Rows.
  if (!context.is_cpu || purpose == Purpose::kWarm) set_rows(d, out);
  const auto block_bytes = static_cast<int64_t>(size_of(c.b));
  out->b_stride = d.groups > 1 ? b_elements / block_elements(c.b) * block_bytes : 0;
  if (purpose == Purpose::kPlan && context.is_cpu) plan_mean_group(d, out);
  if (purpose == Purpose::kPlan && !context.is_cpu) plan_for_mean(d, a, of_d, purpose, out);
  if (purpose != Purpose::kRun) return absl::OkStatus();

  if (context.is_cpu && stream != nullptr) return invalid("the stream is not NULL; the CPU has no streams");
  if (out->nothing_to_do) return absl::OkStatus();
  LATHE_RETURN_IF_ERROR(check_pointers(d, *out));
  out->bias_stride = c.bias == DType::kNone ? 0 : d.n * static_cast<int64_t>(size_of(c.bias));
  out->scale_b_stride = channels(c.scale_b, d.n) * 4;
  out->zero_b_stride = channels(c.zero_b, d.n) * 4;
  out->bias = static_cast<const char*>(d.epilogue.bias);
  LATHE_RETURN_IF_ERROR(check_overlap(d, *out, a, of_d));
  if (product.reads_operands()) {
    out->a_data = static_cast<const char*>(d.a.data);
    out->b_data = static_cast<const char*>(d.b.data);
  }
  out->d_data = static_cast<char*>(d.d.data);
  finish_arguments(d, &product);
  if (out->up) finish_arguments(d, &out->up->request);
  if (!context.is_cpu) plan_for_mean(d, a, of_d, purpose, out);
  return absl::OkStatus();
}

std::string describe(ProblemClass c, int64_t m, int64_t n, int64_t k, int64_t groups, int64_t used) {
  c.rows = Rows::kPlain;  // the text has its own words for them
  std::string text = absl::StrCat("grouped_", describe(c, Dims{m, n, k, 1}));
  const std::string batch = " batch=1";
  return text.replace(text.find(batch), batch.size(),
                      absl::StrCat(" groups=", groups, used == 1 ? "" : absl::StrCat(" used=", used)));
}

[[gnu::cold]] std::string describe(const lathe_grouped_matmul_desc& d) {
  ProblemClass c;
  c.a = known_dtype(d.a.dtype);
  c.b = known_dtype(d.b.dtype);
  c.d = known_dtype(d.d.dtype);
  c.trans_a = raw(d.a.layout) == LATHE_COLUMN_MAJOR;
  c.trans_b = raw(d.b.layout) == LATHE_COLUMN_MAJOR;
  c.packed_b = d.b.packed_layout != 0;
  return describe(c, d.m, d.n, d.k, d.groups, d.used);
}

}  // namespace

std::string describe(const GroupedRequest& r) {
  const Request& product = r.product.request;
  return describe(product.key.problem, r.m, r.n, product.dims.k, r.groups, r.used);
}

absl::Status read_grouped_matmul(const lathe_grouped_matmul_desc* desc, Purpose purpose,
                                 const RequestContext& context, void* stream, GroupedRequest* out) {
  if (desc == nullptr) return invalid("grouped_matmul: desc is NULL");
  if (desc->struct_size != sizeof(lathe_grouped_matmul_desc)) {
    return invalid(absl::StrCat("grouped_matmul: lathe_grouped_matmul_desc: struct_size ", desc->struct_size,
                                " is not ", sizeof(lathe_grouped_matmul_desc)));
  }
  lathe_grouped_matmul_desc d = *desc;
  if (purpose == Purpose::kWarm) d.m = 1;
  const absl::Status status = read(d, purpose, context, stream, out);
  if (status.ok()) return status;
  return in_request(describe(d), context.device, status);
}

}  // namespace lathe
