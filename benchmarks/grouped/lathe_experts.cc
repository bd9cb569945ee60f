#include "lathe_experts.h"

#include <cstdio>

#include "../gguf/lathe_entrant.h"
#include "reference/numbers.h"

namespace lathe::bench {
namespace {

lathe_dtype dtype_named(const std::string& format) {
  if (format == "f32") return LATHE_F32;
  return format == "bf16" ? LATHE_BF16 : gguf_dtype(format);
}
lathe_math math_for(lathe_dtype dtype) {
  if (dtype == LATHE_F32) return LATHE_MATH_STRICT;
  return dtype == LATHE_BF16 ? LATHE_MATH_BF16 : LATHE_MATH_INT8;
}

}  // namespace

LatheExperts::LatheExperts(lathe_device* device, const ExpertsWeight& weight)
    : device_(device), weight_(weight), dtype_(dtype_named(weight.format)), math_(math_for(dtype_)) {}

bool LatheExperts::pack() {
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = 1;
  desc.n = weight_.n;
  desc.k = weight_.k;
  desc.batch = weight_.groups;
  desc.a.dtype = desc.d.dtype = LATHE_F32;
  desc.d.batch_stride = weight_.n;
  desc.b.dtype = dtype_;
  desc.b.layout = LATHE_COLUMN_MAJOR;
  desc.b.data = weight_.data;
  desc.b.batch_stride = weight_.n * weight_.k;
  desc.math = math_;
  uint32_t layout = 0;
  size_t bytes = 0;
  if (lathe_packed_layout(device_, &desc, &layout, &bytes) != LATHE_OK) return false;
  packed_ = allocate_huge(bytes);
  if (lathe_pack_weights(device_, &desc, layout, packed_.get(), bytes) != LATHE_OK) {
    std::fprintf(stderr, "lathe_pack_weights %s: %s\n", weight_.format.c_str(), lathe_last_error());
    return false;
  }
  layout_ = layout;
  packed_stride_ =
      static_cast<int64_t>(bytes / static_cast<size_t>(weight_.groups) / reference::bytes_of(dtype_)) *
      reference::block_elements(dtype_);
  return true;
}

bool LatheExperts::run(const ExpertsCalls& calls, size_t routing) {
  const int64_t n = weight_.n, k = weight_.k;
  lathe_grouped_matmul_desc desc = LATHE_GROUPED_MATMUL_DESC_INIT;
  desc.m = calls.m;
  desc.n = n;
  desc.k = k;
  desc.groups = weight_.groups;
  desc.used = calls.used;
  desc.grouping = LATHE_GROUPING_INDEXED;
  desc.routing = calls.routings[routing];
  desc.a.dtype = desc.d.dtype = LATHE_F32;
  desc.a.data = calls.a;
  desc.a.leading_dimension = calls.shares_a ? k : calls.used * k;
  desc.a.batch_stride = calls.shares_a ? 0 : k;
  desc.d.data = calls.d;
  desc.d.leading_dimension = calls.used * n;
  desc.d.batch_stride = n;
  desc.b.dtype = dtype_;
  desc.b.layout = LATHE_COLUMN_MAJOR;
  desc.math = math_;
  if (is_packed()) {
    desc.b.data = packed_.get();
    desc.b.packed_layout = layout_;
    desc.b.batch_stride = packed_stride_;
  } else {
    desc.b.data = weight_.data;
    desc.b.batch_stride = n * k;
  }
  if (lathe_grouped_matmul(device_, nullptr, &desc) == LATHE_OK) return true;
  if (!has_failed_)
    std::fprintf(stderr, "lathe_grouped_matmul %s: %s\n", weight_.format.c_str(), lathe_last_error());
  has_failed_ = true;
  return false;
}

}  // namespace lathe::bench
