// Requests of the command line: from flags to a request, from a request to a descriptor, and back to flags.
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

// Parses a shape: "123x456x51234" gives {123, 456, 51234}. `pattern` ("MxNxK") has as many sizes. A size may be 0.
absl::StatusOr<std::vector<int64_t>> parse_shape(const std::string& text, const std::string& pattern);

// The flags of a matmul request, followed by `more`. The run flags add those that only matter if it runs.
std::vector<Flag> matmul_flags(const std::vector<Flag>& more);
std::vector<Flag> matmul_run_flags(const std::vector<Flag>& more);
// Reads a request from the flags. m, n and k stay 0.
absl::StatusOr<MatmulRequest> matmul_request(const Arguments& arguments);
// Reads a request from the flags and the first word, "MxNxK".
absl::StatusOr<MatmulRequest> matmul_request_with_shape(const Arguments& arguments);
// The words and flags that matmul_request_with_shape reads as `r`: "matmul 2x3x4 --dtype bf16 ...".
std::string command_of(const MatmulRequest& r);

// The descriptor of a request. Data pointers are NULL, unless their presence is part of the class. If the request
// overrides the oracle, `tuning` is filled and chained, and must live as long as the descriptor.
lathe_matmul_desc descriptor(const MatmulRequest& r, lathe_tuning* tuning);
// If `r` has a packed B: changes the descriptor of an unpacked B to one of the packed B. *bytes is the packed size.
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

// An elementwise request. The command does not run it, so it has no batch and no data.
struct ElementwiseRequest : OpRequest {
  int64_t m = 0, n = 0;
  std::string path, text;  // the program's file and its contents
  std::shared_ptr<lathe_program> program;

  std::vector<int64_t> sizes() const { return {m, n}; }
};
std::vector<Flag> elementwise_flags(const std::vector<Flag>& more);
absl::StatusOr<ElementwiseRequest> elementwise_request(const Arguments& arguments);
std::string command_of(const ElementwiseRequest& r);
lathe_elementwise_desc descriptor(const ElementwiseRequest& r, lathe_tuning* tuning);

}  // namespace lathe::cli
