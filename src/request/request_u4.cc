#include "request/request_u4.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace lathe {
namespace {

absl::Status invalid(const std::string& cause) { return absl::InvalidArgumentError(cause); }
absl::Status unsupported(const std::string& cause) { return absl::UnimplementedError(cause); }

template <typename... Text>
std::string of_scale(const Text&... text) {
  return absl::StrCat("b: scale: ", text...);
}

// Whether lines of a batch, both at these distances, may span more bytes than an int64_t counts.
bool spans_too_much(int64_t lines, int64_t leading, int64_t batch, int64_t stride) {
  constexpr int64_t kMost = INT64_MAX >> 4;  // so that no sum of distances in bytes overflows
  int64_t of_lines = 0, of_matrices = 0;
  return __builtin_mul_overflow(lines, leading, &of_lines) ||
         __builtin_mul_overflow(batch, stride, &of_matrices) || of_lines > kMost || of_matrices > kMost;
}

absl::Status check_scale(const lathe_matmul_desc& d, bool with_data) {
  if (d.b.scale == nullptr) return invalid("b: scale is NULL");
  const lathe_scale& s = *d.b.scale;
  if (s.struct_size != sizeof(lathe_scale))
    return invalid(of_scale("struct_size ", s.struct_size, " is not ", sizeof(lathe_scale)));
  if (s.next != nullptr) return unsupported(of_scale("no chain element is supported here"));
  if (raw(s.dtype) != LATHE_F16) return explain_dtype("b: scale", s.dtype, Set<DType>(DType::kF16));
  if (raw(s.granularity) != LATHE_PER_BLOCK || s.block_size != kU4Group ||
      raw(s.layout) != LATHE_SCALES_BY_BLOCK)
    return unsupported(
        of_scale("4-bit weights need granularity PER_BLOCK, block_size ", kU4Group, " and layout BY_BLOCK"));
  if (s.block_lines > 1 || s.reserved != 0 || s.global != nullptr)
    return unsupported(of_scale("block_lines, reserved and global are not supported here"));
  if (s.leading_dimension != 0 && s.leading_dimension < d.n)
    return invalid(of_scale("leading_dimension ", s.leading_dimension, " < n ", d.n));
  if (s.batch_stride < 0) return invalid(of_scale("batch_stride ", s.batch_stride, " < 0"));
  if (spans_too_much(d.k / kU4Group, s.leading_dimension, d.batch, s.batch_stride))
    return invalid(of_scale("spans more than 2^63 - 1 bytes"));
  if (with_data && s.data == nullptr) return invalid(of_scale("data is NULL"));
  return absl::OkStatus();
}

// Weights of which the order of K was changed when they were quantised (act-order).
absl::Status check_group_index(const lathe_matmul_desc& d) {
  const int32_t* index = d.b.scale->group_index;
  if (index == nullptr) return absl::OkStatus();
  if (to_dtype(d.b.dtype) == DType::kU4Awq) return unsupported(of_scale("AWQ has no group_index"));
  for (int64_t k = 0; k < d.k; ++k)
    if (index[k] != k / kU4Group)
      return unsupported(of_scale("group_index[", k, "] is ", index[k], ", not ", k / kU4Group,
                                  ": act-order (desc_act) is not supported"));
  return absl::OkStatus();
}

}  // namespace

bool is_u4_weight(const lathe_matmul_desc& desc) { return is_u4_source(to_dtype(desc.b.dtype)); }

lathe_matmul_desc packed_u4_product(const lathe_matmul_desc& desc, void* packed) {
  lathe_matmul_desc product = desc;
  lathe_operand& b = product.b;
  b.data = packed;
  b.dtype = LATHE_U4_128;
  b.layout = LATHE_COLUMN_MAJOR;
  b.leading_dimension = 0;
  // Sizes may still be out of range, but are checked before this is used.
  const uint64_t elements = static_cast<uint64_t>(desc.n) * static_cast<uint64_t>(desc.k);
  b.batch_stride = desc.b.batch_stride == 0 ? 0 : static_cast<int64_t>(elements);
  b.scale = nullptr;
  b.zero_point = nullptr;
  return product;
}

absl::Status check_u4_weight(const lathe_matmul_desc& d, bool with_data) {
  if (raw(d.b.layout) != LATHE_ROW_MAJOR) return unsupported("b: 4-bit weights are ROW_MAJOR (K by N)");
  if (d.n % kU4PerWord != 0)
    return invalid(absl::StrCat("n ", d.n, " is not a multiple of ", kU4PerWord, ", the codes of a word"));
  if (d.b.leading_dimension != 0 && d.b.leading_dimension != d.n)
    return unsupported(absl::StrCat("ldb ", d.b.leading_dimension, " must be 0 or n ", d.n));
  if (d.b.batch_stride < 0 || d.b.batch_stride % kU4PerWord != 0)
    return invalid(absl::StrCat("b: batch_stride ", d.b.batch_stride, " is not a positive multiple of ",
                                kU4PerWord, ", the codes of a word"));
  if (spans_too_much(d.k, d.n, d.batch, d.b.batch_stride))
    return invalid("b: spans more than 2^63 - 1 bytes");
  LATHE_RETURN_IF_ERROR(check_scale(d, with_data));
  const bool is_empty = d.n == 0 || d.k == 0;  // its stride is 0 without being shared
  if (d.batch > 1 && !is_empty && d.b.batch_stride == 0 && d.b.scale->batch_stride != 0)
    return unsupported(of_scale("batch_stride ", d.b.scale->batch_stride,
                                " must be 0, because all matrices share one b (batch_stride 0)"));
  return with_data ? check_group_index(d) : absl::OkStatus();
}

U4Source u4_matrix(const lathe_matmul_desc& d, int64_t matrix) {
  const auto at = [&](const void* data, int64_t bytes) {
    return data == nullptr ? nullptr : static_cast<const char*>(data) + matrix * bytes;
  };
  const lathe_scale& s = *d.b.scale;
  const int64_t zeros = d.k / kU4Group * (d.n / kU4PerWord) * 4;
  return {to_dtype(d.b.dtype),
          at(d.b.data, d.b.batch_stride / kU4PerWord * 4),
          at(d.b.zero_point, zeros),
          at(s.data, s.batch_stride * 2),
          d.k,
          d.n,
          s.leading_dimension == 0 ? d.n : s.leading_dimension};
}

std::array<std::pair<const char*, Region>, 3> u4_regions(const lathe_matmul_desc& d, int64_t matrices) {
  const lathe_scale& s = *d.b.scale;
  const int64_t groups = d.k / kU4Group, leading = s.leading_dimension == 0 ? d.n : s.leading_dimension;
  const int64_t words = ((matrices - 1) * d.b.batch_stride + d.k * d.n) / kU4PerWord;
  const int64_t scales = (matrices - 1) * s.batch_stride + (groups - 1) * leading + d.n;
  const int64_t zeros = d.b.zero_point == nullptr ? 0 : matrices * groups * (d.n / kU4PerWord);
  return {{{"b", line_at(d.b.data, words * 4)},
           {"the scale of b", line_at(s.data, scales * 2)},
           {"the zero point of b", line_at(d.b.zero_point, zeros * 4)}}};
}

}  // namespace lathe
