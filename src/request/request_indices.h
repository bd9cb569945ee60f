// What the requests that answer indices share: their dtype, a shard's offset, and where they and the values
// go. The descriptors name these fields alike.
#pragma once

#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "request/request.h"

namespace lathe {

inline bool is_index(const lathe_dtype& t) { return raw(t) == LATHE_I32 || raw(t) == LATHE_I64; }
[[gnu::cold]] absl::Status explain_index_dtype(const lathe_dtype& t);

// Refuses empty rows, and indices of rows of `n` elements that the dtype cannot hold.
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
// Of a request with rows: indices that are there, values that may be, and neither in an input or in the
// other.
bool check_outputs(const void* indices, const float* values, const Request& request,
                   std::initializer_list<NamedRegion> inputs, absl::Status* why);

// The outputs are written element by element: they do not keep inputs from being read 16 bytes at a time.
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
