// Requests as the command line says them: flags to requests, requests to descriptors, requests back to flags.
#pragma once

#include <lathe/lathe.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/command_line.h"
#include "cli/operand.h"

namespace lathe::cli {

// "123x456x51234" as {123, 456, 51234}: as many whole numbers >= 0 as `form` ("MxNxK") has letters between
// its x.
absl::StatusOr<std::vector<int64_t>> parse_shape(const std::string& text, const std::string& form);

// What requests of every op have.
struct OpRequest {
  lathe_determinism determinism = LATHE_DETERMINISM_FAST;
  lathe_dependent_launch dependent_launch = LATHE_DEPENDENT_LAUNCH_OFF;
  int32_t split_k = 0, candidate = 0;
  int64_t padding = 0;
  // What only a run has.
  size_t misalign = 0;
  Fill fill = Fill::kNormal;

  bool operator==(const OpRequest& o) const;
};

// And those that are answered by indices.
struct IndicesRequest : OpRequest {
  lathe_dtype index_dtype = LATHE_I64;
  bool values = false;
  int64_t index_offset = 0;

  bool operator==(const IndicesRequest& o) const;
};

struct MatmulRequest : OpRequest {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  lathe_dtype dtype = LATHE_F32, out_dtype = LATHE_F32;
  lathe_dtype b_dtype = LATHE_DTYPE_NONE;  // NONE: dtype
  lathe_math math = LATHE_MATH_STRICT;
  bool trans_a = false, trans_b = true;
  float alpha = 1, beta = 0;
  bool bias = false, residual = false;
  lathe_activation activation = LATHE_ACTIVATION_NONE;
  bool packed = false;  // B, by lathe_pack_weights
  // What only a run has.
  bool c_in_place = false, residual_in_place = false;  // the operand is D itself
  bool broadcast_a = false, broadcast_b = false;

  lathe_dtype weight_dtype() const { return b_dtype == LATHE_DTYPE_NONE ? dtype : b_dtype; }
  bool operator==(const MatmulRequest& o) const;
};

// The dtype of the result where none is asked for: that of A and B; f32 of bytes and fp8.
lathe_dtype default_result(lathe_dtype dtype);

// The flags a MatmulRequest is read from, in front of `more`; the second list is a run's.
std::vector<Flag> matmul_flags(const std::vector<Flag>& more);
std::vector<Flag> matmul_run_flags(const std::vector<Flag>& more);
// From the flags; the sizes m, n and k are left alone.
absl::StatusOr<MatmulRequest> matmul_request(const Arguments& arguments);
// From the flags and the first word, "MxNxK".
absl::StatusOr<MatmulRequest> matmul_request_with_shape(const Arguments& arguments);
// "matmul 2x3x4 --dtype bf16 ...": the words and flags that matmul_request_with_shape reads as `r`.
std::string command_of(const MatmulRequest& r);

// Where each operand of `r` lies.
struct MatmulForms {
  OperandForm a, b, c, bias, residual, d;  // of dtype NONE where the request has no such operand
};
MatmulForms forms_of(const MatmulRequest& r);

// The descriptor; data pointers NULL but where presence is part of the class. `tuning` is filled and chained
// when the request overrides the oracle: it must live as long as the descriptor.
lathe_matmul_desc descriptor(const MatmulRequest& r, lathe_tuning* tuning);
// Where `r` has B packed: says so in the descriptor, whose B is as it lies unpacked; *bytes is what it takes
// packed.
lathe_status describe_packed(lathe_device* device, const MatmulRequest& r, lathe_matmul_desc* desc,
                             size_t* bytes);

struct ArgmaxRequest : IndicesRequest {
  int64_t rows = 0, n = 0;
  lathe_dtype dtype = LATHE_F32;

  bool operator==(const ArgmaxRequest& o) const;
};
std::vector<Flag> argmax_flags(const std::vector<Flag>& more);
std::vector<Flag> argmax_run_flags(const std::vector<Flag>& more);
absl::StatusOr<ArgmaxRequest> argmax_request(const Arguments& arguments);
std::string command_of(const ArgmaxRequest& r);

struct ArgmaxForms {
  OperandForm x, indices, values;  // values: of dtype NONE where not asked for
};
ArgmaxForms forms_of(const ArgmaxRequest& r);
lathe_argmax_desc descriptor(const ArgmaxRequest& r, lathe_tuning* tuning);

struct MatmulArgmaxRequest : IndicesRequest {
  int64_t m = 0, n = 0, k = 0;
  lathe_dtype dtype = LATHE_F32, logits_dtype = LATHE_F32;
  lathe_dtype b_dtype = LATHE_DTYPE_NONE;  // NONE: dtype
  lathe_math math = LATHE_MATH_STRICT;
  bool trans_a = false, trans_b = true;
  bool bias = false;

  lathe_dtype weight_dtype() const { return b_dtype == LATHE_DTYPE_NONE ? dtype : b_dtype; }
  bool operator==(const MatmulArgmaxRequest& o) const;
};
std::vector<Flag> matmul_argmax_flags(const std::vector<Flag>& more);
std::vector<Flag> matmul_argmax_run_flags(const std::vector<Flag>& more);
absl::StatusOr<MatmulArgmaxRequest> matmul_argmax_request(const Arguments& arguments);
std::string command_of(const MatmulArgmaxRequest& r);

struct MatmulArgmaxForms {
  OperandForm a, b, bias, indices, values;  // of dtype NONE where the request has no such operand
};
MatmulArgmaxForms forms_of(const MatmulArgmaxRequest& r);
lathe_matmul_argmax_desc descriptor(const MatmulArgmaxRequest& r, lathe_tuning* tuning);

// Of explain and dump alone; batches and values are payloads' matter.
struct ElementwiseRequest : OpRequest {
  int64_t m = 0, n = 0;
  std::string text;
  std::shared_ptr<lathe_program> program;
};
std::vector<Flag> elementwise_flags(const std::vector<Flag>& more);
absl::StatusOr<ElementwiseRequest> elementwise_request(const Arguments& arguments);
lathe_elementwise_desc descriptor(const ElementwiseRequest& r, lathe_tuning* tuning);

}  // namespace lathe::cli
