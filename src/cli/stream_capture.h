// Stream capture as an engine uses it: by the driver's own functions, of which the few needed are declared
// here, CUDA's and HIP's.
#pragma once

#include <lathe/lathe.h>

#include <memory>
#include <string>

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

// For "cuda:0" and "hip:0", once such a device is open. kUnimplemented for other devices, and where the
// driver has no graphs.
absl::StatusOr<std::unique_ptr<Capture>> open_capture(const std::string& device);

}  // namespace lathe::cli
