#include "cli/scaled_operands.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/request_flags.h"
#include "cli/session.h"

namespace lathe::cli {
namespace {

using reference::ScaledElements;

constexpr std::pair<const char*, lathe_dtype> kFourBits[] = {
    {"awq", LATHE_U4_AWQ}, {"gptq", LATHE_U4_GPTQ}, {"gptq_v2", LATHE_U4_GPTQ_V2}};
lathe_dtype four_bits_named(const std::string& name) {
  for (const auto& [known, dtype] : kFourBits)
    if (name == known) return dtype;
  return LATHE_DTYPE_NONE;
}

// Columns of B that share a scale: 128 as in DeepSeek's weights, if the format has such scales.
int64_t lines_of_scale(const ScaledElements& f, bool is_b) { return is_b && f.takes_tall ? 128 : 1; }

// A description of the scales, which lives as long as the program. Its data is never read.
const lathe_scale* described_scale(const ScaledElements& f, bool is_b) {
  static const std::vector<std::array<lathe_scale, 2>> all = [] {
    std::vector<std::array<lathe_scale, 2>> scales;
    for (const ScaledElements& of : reference::scaled_elements()) {
      std::array<lathe_scale, 2>& made = scales.emplace_back();
      for (lathe_scale& s : made) {
        s = LATHE_SCALE_INIT;
        s.data = present();
        s.dtype = of.scale;
        s.granularity = LATHE_PER_BLOCK;
        s.block_size = of.block;
        s.block_lines = lines_of_scale(of, &s == &made[1]);
      }
    }
    return scales;
  }();
  return &all[static_cast<size_t>(&f - reference::scaled_elements().data())][is_b];
}

void describe_format(const ScaledElements& f, bool is_b, lathe_operand* o) {
  o->dtype = f.element;
  o->scale = described_scale(f, is_b);
}

reference::ScaledSpec spec_of(const std::string& name, bool is_b, const reference::OperandSpec& decoded) {
  reference::ScaledSpec spec;
  spec.format = reference::scaled_elements_named(name);
  spec.lines = is_b ? decoded.columns : decoded.rows;
  spec.k = is_b ? decoded.rows : decoded.columns;
  spec.batch = decoded.batch;
  spec.lines_each = lines_of_scale(*spec.format, is_b);
  return spec;
}

double bytes_of_format(const reference::ScaledSpec& s) {
  const ScaledElements& f = *s.format;
  const double elements =
      static_cast<double>(s.batch) * static_cast<double>(s.lines) * static_cast<double>(s.k);
  const double scales = elements / static_cast<double>(f.block * s.lines_each);
  return elements * (f.element == LATHE_F4_E2M1 ? 0.5 : 1) + scales * (f.scale == LATHE_F32 ? 4 : 1);
}

}  // namespace

const std::vector<std::string>& scaled_formats() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const ScaledElements& f : reference::scaled_elements()) all.emplace_back(f.name);
    return all;
  }();
  return names;
}
const std::vector<std::string>& scaled_weight_formats() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = scaled_formats();
    for (const auto& format : kFourBits) all.emplace_back(format.first);
    return all;
  }();
  return names;
}

Flag a_format_flag() {
  static const std::string names = absl::StrJoin(scaled_formats(), "|");
  return {"a-format", names.c_str(), "A has block scales in this format (CPU; needs --b-format)"};
}
Flag b_format_flag() {
  static const std::string names = absl::StrJoin(scaled_weight_formats(), "|");
  return {"b-format", names.c_str(), "B has block scales, or is a 4-bit weight of AWQ or GPTQ (CPU)"};
}

absl::Status read_formats(const Arguments& arguments, const std::vector<const char*>& excluded,
                          lathe_dtype dtype, lathe_dtype* b_dtype, OperandFormats* out) {
  const auto read = [&](const char* flag, const std::vector<std::string>& names, std::string* to) {
    if (!arguments.has(flag)) return absl::OkStatus();
    auto name = arguments.choice(flag, names);
    if (name.ok()) *to = *name;
    return name.status();
  };
  const absl::Status s = first_error(
      {read("a-format", scaled_formats(), &out->a), read("b-format", scaled_weight_formats(), &out->b)});
  if (!s.ok()) return s;
  if (out->b.empty()) return out->a.empty() ? s : absl::InvalidArgumentError("--a-format needs --b-format");
  for (const char* flag : excluded)
    if (arguments.has(flag))
      return absl::InvalidArgumentError(absl::StrCat("--b-format does not go with --", flag));
  if (!out->a.empty() && arguments.has("dtype"))
    return absl::InvalidArgumentError("--a-format does not go with --dtype");
  if (dtype != LATHE_F32) *b_dtype = LATHE_F32;
  return s;
}

void describe_formats(const OperandFormats& formats, lathe_operand* a, lathe_operand* b) {
  if (const ScaledElements* f = reference::scaled_elements_named(formats.a))
    describe_format(*f, /*is_b=*/false, a);
  if (const ScaledElements* f = reference::scaled_elements_named(formats.b))
    describe_format(*f, /*is_b=*/true, b);
  if (four_bits_named(formats.b) != LATHE_DTYPE_NONE) b->dtype = LATHE_U4_128;
}

ScaledOperands::ScaledOperands(const OperandFormats& formats, const reference::OperandSpec& a,
                               const reference::OperandSpec& b, reference::Normal* random) {
  if (!formats.a.empty()) a_ = reference::ScaledMatrix(spec_of(formats.a, false, a), random);
  const lathe_dtype four_bits = four_bits_named(formats.b);
  if (four_bits != LATHE_DTYPE_NONE)
    weight_ = reference::GroupedWeight(four_bits, b.rows, b.columns, b.batch, /*symmetric=*/false, random);
  else
    b_ = reference::ScaledMatrix(spec_of(formats.b, true, b), random);
}

void ScaledOperands::decode(reference::Operand* a, reference::Operand* b) const {
  const auto each = [](const reference::OperandSpec& s, const auto& body) {
    for (int64_t matrix = 0; matrix < s.batch; ++matrix)
      for (int64_t i = 0; i < s.rows; ++i)
        for (int64_t j = 0; j < s.columns; ++j) body(matrix, i, j);
  };
  if (a_.spec().format != nullptr)
    each(a->spec(), [&](int64_t matrix, int64_t i, int64_t j) { a->set(matrix, i, j, a_.at(matrix, i, j)); });
  each(b->spec(), [&](int64_t matrix, int64_t i, int64_t j) {
    b->set(matrix, i, j, has_u4() ? weight_.at(matrix, i, j) : b_.at(matrix, j, i));
  });
}

// Copies elements and scales to the device and makes `operand` and `scale` point to the copies.
absl::Status ScaledOperands::upload(lathe_device* device, const Stream& stream,
                                    const reference::ScaledMatrix& matrix, lathe_operand* operand,
                                    lathe_scale* scale) {
  for (const auto& [data, bytes] : matrix.memory()) {
    const auto* const first = static_cast<const uint8_t*>(data);
    images_.emplace_back(first, first + bytes);
    auto made = DeviceBuffer::make(device, stream.get(), images_.back());
    if (!made.ok()) return made.status();
    buffers_.push_back(*std::move(made));
    const auto moved = [&, bytes = bytes](const void* pointer) -> const void* {
      const auto* const at = static_cast<const uint8_t*>(pointer);
      if (at < first || at >= first + bytes) return pointer;
      return static_cast<const uint8_t*>(buffers_.back().data()) + (at - first);
    };
    operand->data = const_cast<void*>(moved(operand->data));
    scale->data = moved(scale->data);
    scale->global = static_cast<const float*>(moved(scale->global));
  }
  return absl::OkStatus();
}

absl::Status ScaledOperands::attach(lathe_device* device, const Stream& stream, lathe_matmul_desc* desc) {
  if (a_.spec().format != nullptr) {
    scale_a_ = a_.scale();
    desc->a = a_.operand(/*column_major=*/false);
    if (absl::Status s = upload(device, stream, a_, &desc->a, &scale_a_); !s.ok()) return s;
    desc->a.scale = &scale_a_;
    // The slots of a token of a grouped product may share one row.
    if (a_.spec().batch == 1) desc->a.batch_stride = scale_a_.batch_stride = 0;
  }
  if (has_u4()) return attach_u4(device, stream, desc);
  scale_b_ = b_.scale();
  desc->b = b_.operand(/*column_major=*/true);
  if (absl::Status s = upload(device, stream, b_, &desc->b, &scale_b_); !s.ok()) return s;
  desc->b.scale = &scale_b_;
  return absl::OkStatus();
}

absl::Status ScaledOperands::attach_u4(lathe_device* device, const Stream& stream, lathe_matmul_desc* desc) {
  lathe_matmul_desc unpacked = *desc;
  scale_b_ = weight_.scale();
  unpacked.b = weight_.operand();
  unpacked.b.scale = &scale_b_;
  uint32_t layout = 0;
  size_t bytes = 0;
  if (absl::Status s = check(lathe_packed_layout(device, &unpacked, &layout, &bytes)); !s.ok()) return s;
  packed_.resize(bytes);
  if (absl::Status s = check(lathe_pack_weights(device, &unpacked, layout, packed_.data(), bytes)); !s.ok())
    return s;
  auto made = DeviceBuffer::make(device, stream.get(), packed_);
  if (!made.ok()) return made.status();
  packed_on_device_ = *std::move(made);
  desc->b = LATHE_OPERAND_INIT;
  desc->b.dtype = LATHE_U4_128;
  desc->b.data = packed_on_device_.data();
  desc->b.packed_layout = layout;
  desc->b.batch_stride = desc->n * desc->k;
  return absl::OkStatus();
}

double ScaledOperands::bytes_of_a() const {
  return a_.spec().format == nullptr ? 0 : bytes_of_format(a_.spec());
}
double ScaledOperands::bytes_of_b() const {
  return has_u4() ? static_cast<double>(packed_.size()) : bytes_of_format(b_.spec());
}

}  // namespace lathe::cli
