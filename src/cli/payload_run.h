// Runs one function of a payload on random arguments in device memory. The steps run one after the other, and each
// result is checked against float64, computed from what the step read.
#pragma once

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "cli/device_memory.h"
#include "cli/payload_steps.h"
#include "reference/argmax.h"
#include "reference/evaluate.h"
#include "reference/matmul.h"
#include "reference/matmul_argmax.h"

namespace lathe::cli {

class PayloadTrial {
 public:
  // The arguments depend only on `seed`. `function`, the device, the stream and `tunings` must outlive the trial.
  // `tunings` has one element per step, or none.
  static absl::StatusOr<std::unique_ptr<PayloadTrial>> make(lathe_device* device, const Stream& stream,
                                                            const Json& function, int64_t rows, uint64_t seed,
                                                            absl::Span<const lathe_tuning> tunings);
  // Launches all steps on the trial's stream, without waiting for the last kernels. Returns the seconds that the host
  // spent, with the device idle, on work without a kernel: elementwise steps without a program, and copying the rows
  // of an argmax whose elements are not contiguous.
  absl::StatusOr<double> launch();
  // Waits, then checks the result of each step; reports the first wrong one, or the largest error. Then checks the
  // function's results against the payload's text, which does not depend on the steps.
  absl::StatusOr<reference::CheckResult> verify();

  // Of the steps with a kernel: the floating-point operations, and the size of the operands.
  double flops() const;
  double bytes() const;
  const std::vector<PayloadStep>& steps() const { return steps_; }

 private:
  struct Value {
    lathe_dtype dtype = LATHE_DTYPE_NONE;
    std::vector<int64_t> shape;
    std::vector<uint8_t> image;
    int64_t elements = 0;
    DeviceBuffer memory;
  };
  struct Access {
    const Value* value;
    std::string dims;
  };

  PayloadTrial(lathe_device* device, const Stream& stream, uint64_t seed)
      : device_(device), stream_(stream), random_(seed) {}
  absl::Status make_values(const Json& function, int64_t rows);
  void set_pointers(PayloadStep* step);
  void* memory_of(const PayloadStep& step, const char* name);
  Access access(const PayloadStep& step, const char* name) const;
  // Copies an operand of a step to a matrix. `rows` and `columns` are the letters of its dimensions.
  reference::Operand gather(const PayloadStep& step, const char* name, char rows, char columns) const;
  reference::Operand gather_argmax(const PayloadStep& step) const;
  reference::CheckResult check_step(const PayloadStep& step);
  absl::Status check_meaning(reference::CheckResult* all);
  reference::CheckResult check(const PayloadStep& step, const Elementwise& desc);
  // Does the host's part of a step, if it has one, and adds the time to *seconds.
  absl::Status run_on_host(const PayloadStep& step, double* seconds);
  absl::Status evaluate(const Elementwise& step);
  // Copies an argmax's input so that its rows are contiguous, as the kernel reads them.
  absl::Status gather_rows(const PayloadStep& step);
  absl::Status download(Value* value);
  // Makes an evaluator that knows the elements of `values`, and the shapes of all values.
  absl::StatusOr<reference::Evaluator> evaluator_with(const std::vector<size_t>& values) const;
  reference::CheckResult check(const PayloadStep& step, const lathe_matmul_desc& desc);
  reference::CheckResult check(const PayloadStep& step, const lathe_argmax_desc& desc);
  reference::CheckResult check(const PayloadStep& step, const lathe_matmul_argmax_desc& desc);

  lathe_device* device_;
  const Stream& stream_;
  reference::Normal random_;
  const Json* function_ = nullptr;
  std::vector<Value> values_;
  std::map<const PayloadStep*, Value> rows_;  // the copies of gather_rows
  std::vector<PayloadStep> steps_;
};

}  // namespace lathe::cli
