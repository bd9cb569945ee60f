#include "lathe_entrant.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "../contest.h"

namespace lathe::bench {
namespace {

struct NamedDtype {
  const char* name;
  lathe_dtype dtype;
};
constexpr NamedDtype kDtypes[] = {{"q8_0", LATHE_Q8_0},     {"q4_0", LATHE_Q4_0},  {"q4_1", LATHE_Q4_1},
                                  {"q5_0", LATHE_Q5_0},     {"q5_1", LATHE_Q5_1},  {"q4_k", LATHE_Q4_K},
                                  {"q5_k", LATHE_Q5_K},     {"q6_k", LATHE_Q6_K},  {"iq4_nl", LATHE_IQ4_NL},
                                  {"iq4_xs", LATHE_IQ4_XS}, {"mxfp4", LATHE_MXFP4}};

}  // namespace

lathe_dtype gguf_dtype(const std::string& format) {
  for (const NamedDtype& named : kDtypes)
    if (format == named.name) return named.dtype;
  return LATHE_DTYPE_NONE;
}

lathe_matmul_desc LatheProduct::describe(int64_t m, const float* a, float* d, size_t copy) const {
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = m;
  desc.n = weight_.n;
  desc.k = weight_.k;
  desc.a.dtype = desc.d.dtype = LATHE_F32;
  desc.b.dtype = gguf_dtype(weight_.format);
  desc.b.layout = LATHE_COLUMN_MAJOR;
  desc.math = LATHE_MATH_INT8;
  desc.a.data = const_cast<float*>(a);
  desc.b.data = layout_ == 0 ? weight_.copies[copy] : packed_[copy].get();
  desc.b.packed_layout = layout_;
  desc.d.data = d;
  return desc;
}

bool LatheProduct::pack() {
  const lathe_matmul_desc desc = describe(1, nullptr, nullptr, 0);
  uint32_t layout = 0;
  size_t bytes = 0;
  if (lathe_packed_layout(device_, &desc, &layout, &bytes) != LATHE_OK) return false;
  for (size_t copy = 0; copy < weight_.copies.size(); ++copy) {
    packed_.push_back(allocate_huge(bytes));
    if (copy > 0) {
      std::memcpy(packed_[copy].get(), packed_[0].get(), bytes);
      continue;
    }
    std::memset(packed_[0].get(), 0, bytes);  // maps the pages
    constexpr int kTurns = 5;
    const int64_t padded_columns = (weight_.n + 15) / 16 * 16;  // of the packed weight
    const size_t weight_bytes = bytes / static_cast<size_t>(padded_columns) * static_cast<size_t>(weight_.n);
    for (int turn = 0; turn < kTurns; ++turn) {
      double begin = now_seconds();
      std::memcpy(packed_[0].get(), weight_.copies[0], weight_bytes);
      copy_seconds_ = std::min(copy_seconds_, now_seconds() - begin);
      begin = now_seconds();
      if (lathe_pack_weights(device_, &desc, layout, packed_[0].get(), bytes) != LATHE_OK) {
        std::fprintf(stderr, "lathe_pack_weights %s: %s\n", weight_.format.c_str(), lathe_last_error());
        return false;
      }
      pack_seconds_ = std::min(pack_seconds_, now_seconds() - begin);
    }
  }
  layout_ = layout;
  return true;
}

bool LatheProduct::run(int64_t m, const float* a, float* d, size_t copy) {
  const lathe_matmul_desc desc = describe(m, a, d, copy);
  if (lathe_matmul(device_, nullptr, &desc) == LATHE_OK) return true;
  if (!has_failed_) std::fprintf(stderr, "lathe_matmul %s: %s\n", weight_.format.c_str(), lathe_last_error());
  has_failed_ = true;
  return false;
}

}  // namespace lathe::bench
