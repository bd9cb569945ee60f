// Requests as the command line says them: flags to requests, requests to descriptors, requests back to flags.
#pragma once

#include <lathe/lathe.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/command_line.h"
#include "reference/op_request.h"

namespace lathe::cli {

// "123x456x51234" as {123, 456, 51234}: as many whole numbers >= 0 as `form` ("MxNxK") has letters between
// its x.
absl::StatusOr<std::vector<int64_t>> parse_shape(const std::string& text, const std::string& form);

// The flags a MatmulRequest is read from, in front of `more`; the second list is a run's.
std::vector<Flag> matmul_flags(const std::vector<Flag>& more);
std::vector<Flag> matmul_run_flags(const std::vector<Flag>& more);
// From the flags; the sizes m, n and k are left alone.
absl::StatusOr<MatmulRequest> matmul_request(const Arguments& arguments);
// From the flags and the first word, "MxNxK".
absl::StatusOr<MatmulRequest> matmul_request_with_shape(const Arguments& arguments);
// "matmul 2x3x4 --dtype bf16 ...": the words and flags that matmul_request_with_shape reads as `r`.
std::string command_of(const MatmulRequest& r);

// The descriptor; data pointers NULL but where presence is part of the class. `tuning` is filled and chained
// when the request overrides the oracle: it must live as long as the descriptor.
lathe_matmul_desc descriptor(const MatmulRequest& r, lathe_tuning* tuning);
// Where `r` has B packed: says so in the descriptor, whose B is as it lies unpacked; *bytes is what it takes
// packed.
lathe_status describe_packed(lathe_device* device, const MatmulRequest& r, lathe_matmul_desc* desc,
                             size_t* bytes);

std::vector<Flag> argmax_flags(const std::vector<Flag>& more);
std::vector<Flag> argmax_run_flags(const std::vector<Flag>& more);
absl::StatusOr<ArgmaxRequest> argmax_request(const Arguments& arguments);
std::string command_of(const ArgmaxRequest& r);

lathe_argmax_desc descriptor(const ArgmaxRequest& r, lathe_tuning* tuning);

std::vector<Flag> matmul_argmax_flags(const std::vector<Flag>& more);
std::vector<Flag> matmul_argmax_run_flags(const std::vector<Flag>& more);
absl::StatusOr<MatmulArgmaxRequest> matmul_argmax_request(const Arguments& arguments);
std::string command_of(const MatmulArgmaxRequest& r);

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
