// Operands for measuring a class, in device memory, with numbers like a model's. There are many copies of the operand
// that a model streams from memory, so that each call finds it cold.
#pragma once

#include <memory>
#include <vector>

#include "dispatch/class_on_device.h"
#include "dispatch/device.h"

namespace lathe {

// The sizes at which a class is measured by default: the largest M of its bucket, and for argmax the longest row. If
// the bucket has no upper end, a fixed size.
Dims measured_dims(const ProblemClass& c);

class TuneOperands {
 public:
  // `dims` must belong to the class. kResourceExhausted: the device's memory cannot hold one set of operands.
  static absl::StatusOr<std::unique_ptr<TuneOperands>> make(lathe_device& device, const ProblemClass& problem,
                                                            const Dims& dims, size_t pool_bytes);
  ~TuneOperands();
  TuneOperands(const TuneOperands&) = delete;
  TuneOperands& operator=(const TuneOperands&) = delete;

  // A request of the class, on this object's own stream. Each call uses the next copy of the streamed operand.
  Request& next_request();
  absl::Status synchronize();
  size_t copies() const { return copies_; }

 private:
  explicit TuneOperands(lathe_device& device) : device_(device) {}
  absl::Status fill(const ProblemClass& problem, const Dims& dims, size_t pool_bytes);
  absl::StatusOr<void*> allocate(size_t bytes, DType of);
  absl::StatusOr<void*> allocate_streamed(size_t bytes, size_t pool_bytes, DType of);
  // For each op: make_matmul() in operands_matmul.cc, and so on.
#define LATHE_MAKE(op, value, name, rows, traits) \
  absl::Status make_##name(const ProblemClass& c, const Dims& dims, size_t pool_bytes);
  LATHE_OPS(LATHE_MAKE)
#undef LATHE_MAKE

  lathe_device& device_;
  std::vector<void*> memory_;
  void* stream_ = nullptr;
  Request request_;
  bool streams_a_ = false;  // the streamed operand is in args.a (argmax, elementwise), not in args.b
  char* first_ = nullptr;
  size_t step_ = 0, copies_ = 1, next_ = 0;
};

}  // namespace lathe
