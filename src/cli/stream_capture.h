// Captures streams as an engine does, through the functions of the CUDA or HIP driver.
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
  // Launches the graph on the stream that was captured, and does not wait.
  virtual absl::Status launch() = 0;
};

class Capture {
 public:
  virtual ~Capture() = default;
  // Uses the global capture mode, in which an unsafe driver call of any thread breaks the capture.
  virtual absl::Status begin(lathe_stream stream) = 0;
  virtual absl::StatusOr<std::unique_ptr<CapturedGraph>> end(lathe_stream stream) = 0;
};

// For "cuda:N" and "hip:N" after such a device was opened. kUnimplemented: another device, or a driver without graphs.
absl::StatusOr<std::unique_ptr<Capture>> open_capture(const std::string& device);

}  // namespace lathe::cli
