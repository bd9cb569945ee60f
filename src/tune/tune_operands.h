// Operands to measure a class of requests with: of its own making, in the device's memory, with numbers as a
// model has them, the one that a model streams from memory many times over.
#pragma once

#include <memory>
#include <vector>

#include "dispatch/class_on_device.h"
#include "dispatch/device.h"

namespace lathe {

// The class' last M (kOpenRows where that is open), its longest row: what it is measured at where no request
// says more.
Dims measured_dims(const ProblemClass& c);

class TuneOperands {
 public:
  // `dims` are of the class. kResourceExhausted: the device's memory does not hold them once.
  static absl::StatusOr<std::unique_ptr<TuneOperands>> make(lathe_device& device, const ProblemClass& problem,
                                                            const Dims& dims, size_t pool_bytes);
  ~TuneOperands();
  TuneOperands(const TuneOperands&) = delete;
  TuneOperands& operator=(const TuneOperands&) = delete;

  // A launch of the class, on a stream of this object's own; each call takes the next copy of the streamed
  // operand.
  Request& next_request();
  absl::Status synchronize();
  size_t copies() const { return copies_; }

 private:
  explicit TuneOperands(lathe_device& device) : device_(device) {}
  absl::Status fill(const ProblemClass& problem, const Dims& dims, size_t pool_bytes);
  absl::StatusOr<void*> allocate(size_t bytes, DType of);
  absl::StatusOr<void*> allocate_streamed(size_t bytes, size_t pool_bytes, DType of);
  absl::Status make_argmax(const ProblemClass& c, const Dims& dims, size_t pool_bytes);
  absl::Status make_matmul(const ProblemClass& c, const Dims& dims, size_t pool_bytes);
  absl::Status make_elementwise(const ProblemClass& c, const Dims& dims, size_t pool_bytes);
  absl::Status make_matmul_argmax(const ProblemClass& c, const Dims& dims, size_t pool_bytes);

  lathe_device& device_;
  std::vector<void*> memory_;
  void* stream_ = nullptr;
  Request request_;
  bool streams_a_ = false;  // argmax: X is what is streamed; elementwise: the first input
  char* first_ = nullptr;
  size_t step_ = 0, copies_ = 1, next_ = 0;
};

}  // namespace lathe
