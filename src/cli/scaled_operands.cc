#include "cli/scaled_operands.h"

#include <array>
#include <utility>

#include "absl/strings/str_join.h"
#include "cli/request_flags.h"
#include "cli/session.h"

namespace lathe::cli {
namespace {

using reference::MatmulRequest;
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
    for (const ScaledElements& of : reference::scaled_elements())
      for (auto& made = scales.emplace_back(); lathe_scale & s : made) {
        s = LATHE_SCALE_INIT;
        s.data = present();
        s.dtype = of.scale;
        s.granularity = LATHE_PER_BLOCK;
        s.block_size = of.block;
        s.block_lines = lines_of_scale(of, &s == &made[1]);
      }
    return scales;
  }();
  return &all[static_cast<size_t>(&f - reference::scaled_elements().data())][is_b];
}

void describe_format(const ScaledElements& f, bool is_b, lathe_operand* o) {
  o->dtype = f.element;
  o->scale = described_scale(f, is_b);
}

reference::ScaledSpec spec_of(const std::string& name, bool is_b, int64_t lines, const MatmulRequest& r) {
  reference::ScaledSpec spec;
  spec.format = reference::scaled_elements_named(name);
  spec.lines = lines;
  spec.k = r.k;
  spec.batch = r.batch;
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

void describe_formats(const MatmulRequest& r, lathe_matmul_desc* desc) {
  if (const ScaledElements* f = reference::scaled_elements_named(r.a_format))
    describe_format(*f, /*is_b=*/false, &desc->a);
  if (const ScaledElements* f = reference::scaled_elements_named(r.b_format))
    describe_format(*f, /*is_b=*/true, &desc->b);
  if (four_bits_named(r.b_format) != LATHE_DTYPE_NONE) desc->b.dtype = LATHE_U4_128;
}

ScaledOperands::ScaledOperands(const MatmulRequest& r, reference::Normal* random) {
  if (!r.a_format.empty()) a_ = reference::ScaledMatrix(spec_of(r.a_format, false, r.m, r), random);
  const lathe_dtype four_bits = four_bits_named(r.b_format);
  if (four_bits != LATHE_DTYPE_NONE)
    weight_ = reference::GroupedWeight(four_bits, r.k, r.n, r.batch, /*symmetric=*/false, random);
  else if (!r.b_format.empty())
    b_ = reference::ScaledMatrix(spec_of(r.b_format, true, r.n, r), random);
}

void ScaledOperands::decode(reference::MatmulData* data) const {
  const auto each = [](const reference::OperandSpec& s, const auto& body) {
    for (int64_t matrix = 0; matrix < s.batch; ++matrix)
      for (int64_t i = 0; i < s.rows; ++i)
        for (int64_t j = 0; j < s.columns; ++j) body(matrix, i, j);
  };
  if (a_.spec().format != nullptr)
    each(data->a.spec(),
         [&](int64_t matrix, int64_t i, int64_t j) { data->a.set(matrix, i, j, a_.at(matrix, i, j)); });
  each(data->b.spec(), [&](int64_t matrix, int64_t i, int64_t j) {
    data->b.set(matrix, i, j, has_u4() ? weight_.at(matrix, i, j) : b_.at(matrix, j, i));
  });
}

absl::Status ScaledOperands::attach(lathe_device* device, lathe_matmul_desc* desc) {
  if (a_.spec().format != nullptr) {
    scale_a_ = a_.scale();
    desc->a = a_.operand(/*column_major=*/false);
    desc->a.scale = &scale_a_;
  }
  if (has_u4()) return attach_u4(device, desc);
  scale_b_ = b_.scale();
  desc->b = b_.operand(/*column_major=*/true);
  desc->b.scale = &scale_b_;
  return absl::OkStatus();
}

absl::Status ScaledOperands::attach_u4(lathe_device* device, lathe_matmul_desc* desc) {
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
  desc->b = LATHE_OPERAND_INIT;
  desc->b.dtype = LATHE_U4_128;
  desc->b.data = packed_.data();
  desc->b.packed_layout = layout;
  desc->b.batch_stride = desc->n * desc->k;
  return absl::OkStatus();
}

double ScaledOperands::encoded_less_decoded(const reference::MatmulData& data) const {
  const auto decoded = [](const reference::Operand& o) {
    return static_cast<double>(o.elements()) * static_cast<double>(reference::bytes_of(o.spec().dtype));
  };
  double bytes = -decoded(data.b);
  bytes += has_u4() ? static_cast<double>(packed_.size()) : bytes_of_format(b_.spec());
  if (a_.spec().format != nullptr) bytes += bytes_of_format(a_.spec()) - decoded(data.a);
  return bytes;
}

}  // namespace lathe::cli
