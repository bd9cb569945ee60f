// Parts shared by the ops that return indices (argmax and matmul_argmax): the dtype of the indices, the offset
// of a shard, and the outputs. Their descriptors use the same names for these fields.
#pragma once

#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "request/request.h"

namespace lathe {

[[gnu::cold]] absl::Status explain_index_dtype(const lathe_dtype& t);

// False for empty rows, and if the dtype cannot hold the indices of rows of `n` elements.
inline bool check_index_range(const lathe_dtype& index_dtype, int64_t index_offset, int64_t rows, int64_t n,
                              absl::Status* why) {
  if (rows > 0 && n == 0) return refuse(why, absl::InvalidArgumentError("n 0: an empty row has no maximum"));
  const int64_t last = n > 0 ? n - 1 : 0;
  int64_t highest = 0;
  if (!__builtin_add_overflow(index_offset, last, &highest) &&
      (raw(index_dtype) == LATHE_I64 || (highest <= INT32_MAX && index_offset >= INT32_MIN)))
    return true;
  return refuse(why, absl::InvalidArgumentError(
                         absl::StrCat("index_offset ", index_offset, " + n does not fit the index_dtype")));
}

inline int64_t index_bytes(const Request& request) {
  return request.dims.m * static_cast<int64_t>(size_of(request.key.problem.d));
}
inline int64_t value_bytes(const Request& request) {
  return request.dims.m * static_cast<int64_t>(sizeof(float));
}

struct NamedRegion {
  const char* name;
  const Region* region;
};
// For a request with at least one row: `indices` must not be NULL, `values` may be, and neither may overlap an
// input or the other.
bool check_outputs(const void* indices, const float* values, const Request& request,
                   std::initializer_list<NamedRegion> inputs, absl::Status* why);

// Outputs are written one element at a time, so they only need the alignment of an element.
template <typename Desc>
void align_outputs(const Desc& d, DType index_dtype, OperandAlignment* alignment) {
  alignment->add_elements(d.indices, index_dtype);
  alignment->add_elements(d.values, DType::kF32);
}

template <typename Desc>
void set_output_arguments(const Desc& d, Request* out) {
  ArgumentBlock& args = out->args;
  args.d = d.indices;
  args.values = d.values;
  args.index_offset = d.index_offset;
  args.m = static_cast<int32_t>(out->dims.m);
  args.n = static_cast<int32_t>(out->dims.n);
  args.batch = 1;
}

}  // namespace lathe
