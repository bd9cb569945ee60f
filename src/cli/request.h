// The request a command line describes: shape, dtypes, layouts, epilogue; and the C descriptor it makes.
#pragma once

#include <lathe/lathe.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/command_line.h"

namespace lathe::cli {

// "123x456x51234" as {123, 456, 51234}: as many whole numbers >= 0 as `form` ("MxNxK") has letters between
// its x.
absl::StatusOr<std::vector<int64_t>> parse_shape(const std::string& text, const std::string& form);

struct MatmulRequest {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  lathe_dtype dtype = LATHE_F32, out_dtype = LATHE_F32;
  bool trans_a = false, trans_b = true;
  float alpha = 1, beta = 0;
  bool bias = false, residual = false;
  lathe_activation activation = LATHE_ACTIVATION_NONE;
  lathe_determinism determinism = LATHE_DETERMINISM_FAST;
  int32_t split_k = 0, candidate = 0;
};

// The flags a MatmulRequest is read from, in front of `more`.
std::vector<Flag> matmul_flags(const std::vector<Flag>& more);
// From the flags; the sizes m, n and k are left alone.
absl::StatusOr<MatmulRequest> matmul_request(const Arguments& arguments);
// From the flags and the first word, "MxNxK".
absl::StatusOr<MatmulRequest> matmul_request_with_shape(const Arguments& arguments);

// The descriptor, packed operands; data pointers NULL but where presence is part of the class. `tuning` is
// filled and chained when the request overrides the oracle: it must live as long as the descriptor.
lathe_matmul_desc descriptor(const MatmulRequest& r, lathe_tuning* tuning);

struct ArgmaxRequest {
  int64_t rows = 0, n = 0;
  lathe_dtype dtype = LATHE_F32, index_dtype = LATHE_I64;
  bool values = false;
};
std::vector<Flag> argmax_flags(const std::vector<Flag>& more);
absl::StatusOr<ArgmaxRequest> argmax_request(const Arguments& arguments);
lathe_argmax_desc descriptor(const ArgmaxRequest& r);

}  // namespace lathe::cli
