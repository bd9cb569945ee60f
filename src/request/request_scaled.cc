#include "request/request_scaled.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace lathe {
namespace {

constexpr int64_t kMostScales = INT64_MAX >> 6;  // no sum of distances in bytes overflows

absl::Status invalid(const std::string& cause) { return absl::InvalidArgumentError(cause); }
absl::Status unsupported(const std::string& cause) { return absl::UnimplementedError(cause); }

// One operand with its scales, as a message names it.
struct Reader {
  const char* name;
  const lathe_operand& operand;
  int64_t k, lines, matrices;
  bool is_b;
  Purpose purpose;

  const lathe_scale& scale() const { return *operand.scale; }
  template <typename... Text>
  std::string text(const Text&... parts) const {
    return absl::StrCat(name, ": scale: ", parts...);
  }

  absl::Status check_header() const {
    const lathe_scale& s = scale();
    if (s.struct_size != sizeof(lathe_scale))
      return invalid(text("struct_size ", s.struct_size, " is not ", sizeof(lathe_scale)));
    if (s.next != nullptr) return unsupported(text("no chain element is supported here"));
    if (raw(s.granularity) > LATHE_PER_BLOCK)
      return invalid(text("granularity ", raw(s.granularity), " is unknown"));
    if (s.granularity != LATHE_PER_BLOCK)
      return unsupported(text("only i8 has scales PER_TENSOR and PER_CHANNEL; use PER_BLOCK"));
    if (s.reserved != 0) return unsupported(text("reserved is not 0"));
    if (raw(s.layout) > LATHE_SCALES_TILED) return invalid(text("layout ", raw(s.layout), " is unknown"));
    if (s.group_index != nullptr) return unsupported(text("only U4_GPTQ and U4_GPTQ_V2 have a group_index"));
    if (operand.zero_point != nullptr)
      return unsupported(absl::StrCat(name, ": zero_point is not supported with block scales"));
    if (purpose == Purpose::kRun && s.data == nullptr && k > 0 && lines > 0)
      return invalid(text("data is NULL"));
    return absl::OkStatus();
  }

  absl::Status check_lines(const ScaledFormat& f, int64_t lines_each) const {
    const lathe_scale& s = scale();
    if (lines_each != 1 && !(lines_each == kTallLines && is_b && f.takes_tall))
      return unsupported(text("block_lines ", s.block_lines, is_b ? " of b" : " of a", " must be 1",
                              is_b && f.takes_tall ? " or 128" : ""));
    const bool one_byte = f.scale != DType::kF32;
    if (s.layout == LATHE_SCALES_PACKED_BY_FOUR && f.scale != DType::kF8E8M0)
      return unsupported(text("layout PACKED_BY_FOUR needs scales of f8e8m0, not ", name_of(f.scale)));
    if (s.layout == LATHE_SCALES_TILED && !(one_byte && lines_each == 1))
      return unsupported(text("layout TILED needs scales of one byte and block_lines 1"));
    return absl::OkStatus();
  }

  absl::Status check_distances(const StoredScales& stored) const {
    const lathe_scale& s = scale();
    if (s.batch_stride < 0) return invalid(text("batch_stride ", s.batch_stride, " < 0"));
    if (s.layout == LATHE_SCALES_TILED && s.leading_dimension != 0)
      return invalid(text("leading_dimension ", s.leading_dimension, " must be 0 with layout TILED"));
    const bool by_line = s.layout == LATHE_SCALES_BY_LINE;
    const int64_t least = by_line ? stored.blocks : ceil_div(lines, stored.lines_each);
    if (s.leading_dimension != 0 && s.leading_dimension < least)
      return invalid(text("leading_dimension ", s.leading_dimension, " < ", least, ", the number of ",
                          by_line ? "blocks" : "lines"));
    int64_t of_lines = 0, of_matrices = 0;
    if (__builtin_mul_overflow(std::max(lines, stored.blocks), s.leading_dimension, &of_lines) ||
        __builtin_mul_overflow(matrices, s.batch_stride, &of_matrices) ||
        std::max(of_lines, of_matrices) > kMostScales)
      return invalid(text("spans more than 2^63 - 1 bytes"));
    return absl::OkStatus();
  }

  absl::Status read(StoredScales* out) const {
    LATHE_RETURN_IF_ERROR(check_header());
    const lathe_scale& s = scale();
    const DType element = known_dtype(operand.dtype), scale_dtype = known_dtype(s.dtype);
    const ScaledFormat* f = find_scaled_format(element, scale_dtype, s.block_size);
    if (f == nullptr)
      return unsupported(text(name_of(element), " with ", name_of(scale_dtype), " scales of ", s.block_size,
                              " is none of: ", scaled_format_names()));
    const int64_t whole = std::max(f->block, block_elements(f->blocks));
    if (k % whole != 0)
      return invalid(absl::StrCat("k ", k, " is not a multiple of ", whole, ", which ", name_of(element),
                                  " with scales of ", s.block_size, " needs"));
    out->lines_each = s.block_lines == 0 ? 1 : s.block_lines;
    LATHE_RETURN_IF_ERROR(check_lines(*f, out->lines_each));
    out->blocks = k / s.block_size;
    LATHE_RETURN_IF_ERROR(check_distances(*out));
    out->data = s.data;
    out->format = f;
    out->layout = static_cast<ScaleLayout>(s.layout);
    const int64_t packed = s.layout == LATHE_SCALES_BY_LINE ? out->blocks : ceil_div(lines, out->lines_each);
    out->leading = s.leading_dimension != 0 ? s.leading_dimension : packed;
    out->stride = s.batch_stride;
    out->global = s.global;
    return absl::OkStatus();
  }
};

bool has_scales(const lathe_operand& o) {
  return o.scale != nullptr && to_dtype(o.dtype) != DType::kI8 &&
         (o.scale->struct_size != sizeof(lathe_scale) || raw(o.scale->granularity) == LATHE_PER_BLOCK);
}

// `decodes`: a CPU's call makes f32 of A.
absl::Status read_a(const lathe_matmul_desc& d, Purpose purpose, bool decodes, ScaledProduct* out,
                    lathe_matmul_desc* plain) {
  const int64_t m = purpose == Purpose::kWarm ? 1 : d.m;
  LATHE_RETURN_IF_ERROR((Reader{"a", d.a, d.k, m, d.batch, /*is_b=*/false, purpose}.read(&out->a.scales)));
  if (raw(d.a.layout) != LATHE_ROW_MAJOR)
    return unsupported("a: only ROW_MAJOR is supported with block scales");
  plain->a.scale = nullptr;
  plain->a.dtype = decodes ? LATHE_F32 : static_cast<lathe_dtype>(out->a.scales.format->blocks);
  if (!decodes) return absl::OkStatus();
  plain->a.leading_dimension = 0;
  plain->a.batch_stride = d.a.batch_stride == 0 && d.a.scale->batch_stride == 0 ? 0 : m * d.k;
  return absl::OkStatus();
}

absl::Status read_b(const lathe_matmul_desc& d, Purpose purpose, ScaledProduct* out,
                    lathe_matmul_desc* plain) {
  LATHE_RETURN_IF_ERROR((Reader{"b", d.b, d.k, d.n, d.batch, /*is_b=*/true, purpose}.read(&out->b.scales)));
  if (raw(d.b.layout) != LATHE_COLUMN_MAJOR)
    return unsupported("b: only COLUMN_MAJOR is supported with block scales");
  if (d.b.packed_layout != 0) return unsupported("b: weights with block scales cannot be packed");
  const bool is_empty = d.n == 0 || d.k == 0;  // its stride is 0 without being shared
  if (d.batch > 1 && !is_empty && d.b.batch_stride == 0 && d.b.scale->batch_stride != 0)
    return unsupported(absl::StrCat("b: scale: batch_stride ", d.b.scale->batch_stride,
                                    " must be 0, because all matrices share one b (batch_stride 0)"));
  plain->b.dtype = static_cast<lathe_dtype>(out->b.scales.format->blocks);
  plain->b.scale = nullptr;
  return absl::OkStatus();
}

}  // namespace

bool has_block_scales(const lathe_matmul_desc& d) { return has_scales(d.a) || has_scales(d.b); }

bool counts_lines(const lathe_scale* s) {
  return s != nullptr && s->struct_size == sizeof *s && raw(s->granularity) == LATHE_PER_BLOCK &&
         (raw(s->layout) == LATHE_SCALES_BY_BLOCK || raw(s->layout) == LATHE_SCALES_PACKED_BY_FOUR) &&
         s->leading_dimension == 0;
}

int64_t elements_a_byte(DType t) {
  if (t == DType::kF4E2M1) return 2;
  return has_scales_apart(t) ? block_elements(t) / static_cast<int64_t>(size_of(t)) : 1;
}

absl::Status bytes_of_elements(const lathe_operand& o, Matrices* lines, lathe_operand* out) {
  *out = o;
  out->dtype = LATHE_I8;
  if (elements_a_byte(to_dtype(o.dtype)) == 1) return absl::OkStatus();
  lines->columns /= 2;
  if ((lines->rows > 1 && o.leading_dimension % 2 != 0) || (lines->count > 1 && o.batch_stride % 2 != 0))
    return invalid("a: distances of f4e2m1 must be even");
  out->leading_dimension = o.leading_dimension / 2;
  out->batch_stride = o.batch_stride / 2;
  return absl::OkStatus();
}

int64_t scale_matrices(const StoredScales& scales, int64_t batch) {
  return scales.stride == 0 && batch > 0 ? 1 : batch;
}

absl::Status read_scaled(const lathe_matmul_desc& d, Purpose purpose, Devices devices, ScaledProduct* out,
                         lathe_matmul_desc* plain) {
  LATHE_RETURN_IF_ERROR(explain_dims({purpose == Purpose::kWarm ? 1 : d.m, d.n, d.k, d.batch}));
  *plain = d;
  if (has_scales(d.a))
    LATHE_RETURN_IF_ERROR(
        read_a(d, purpose, devices == Devices::kCpu && purpose != Purpose::kWarm, out, plain));
  else if (has_row(to_dtype(d.a.dtype)) && !is_float(d.a.dtype))
    return unsupported(absl::StrCat("a: dtype ", name_of(to_dtype(d.a.dtype)),
                                    " needs block scales, because B has them; or use ", names_of(kFloats)));
  if (!has_scales(d.b)) return unsupported("b: if A has block scales, B must have them too");
  return read_b(d, purpose, out, plain);
}

void set_scale_arguments(const ScaledProduct& scaled, ArgumentBlock* args) {
  const auto place = [](const StoredScales& s, void** data, void** global) {
    *data = const_cast<void*>(s.data);
    *global = const_cast<float*>(s.global);
    return s.steps();
  };
  if (scaled.a.exists()) {
    const ScaleSteps a = place(scaled.a.scales, &args->scale_a, &args->zero_a);
    args->scale_a_matrix = a.matrix;
    args->scale_a_line128 = a.line128, args->scale_a_line32 = a.line32, args->scale_a_line = a.line;
    args->scale_a_block16 = a.block16, args->scale_a_block4 = a.block4, args->scale_a_block = a.block;
  }
  const ScaleSteps b = place(scaled.b.scales, &args->scale_b, &args->zero_b);
  args->scale_b_matrix = b.matrix;
  args->scale_b_line128 = b.line128, args->scale_b_line32 = b.line32, args->scale_b_line = b.line;
  args->scale_b_block16 = b.block16, args->scale_b_block4 = b.block4, args->scale_b_block = b.block;
  args->scale_b_first = 0;
  args->scale_b_step = 1;
}

}  // namespace lathe
