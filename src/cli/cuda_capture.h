// Stream capture as an engine uses it: by the CUDA driver's own functions, of which the few needed are
// declared here.
#pragma once

#include <lathe/lathe.h>

#include <memory>

#include "absl/status/statusor.h"

namespace lathe::cli {

// A captured graph, ready to be launched.
class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;
  // On the stream that was captured; does not wait.
  virtual absl::Status launch() = 0;
};

class Capture {
 public:
  virtual ~Capture() = default;
  // Global capture mode: what would break the capture of any other thread breaks this one.
  virtual absl::Status begin(lathe_stream stream) = 0;
  virtual absl::StatusOr<std::unique_ptr<CapturedGraph>> end(lathe_stream stream) = 0;
};

// kUnimplemented where there is no CUDA driver, or one without graphs.
absl::StatusOr<std::unique_ptr<Capture>> open_cuda_capture();

}  // namespace lathe::cli
