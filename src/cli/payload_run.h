// A function of a payload on random arguments in a device's memory: its steps launched one after the other,
// each checked against float64 on what it read.
#pragma once

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "cli/device_memory.h"
#include "cli/payload_steps.h"
#include "reference/evaluate.h"
#include "reference/reference.h"

namespace lathe::cli {

class PayloadTrial {
 public:
  // Arguments are a function of `seed`; `function` outlives the trial, as do the device, the stream and
  // `tunings`, one for each step or none.
  static absl::StatusOr<std::unique_ptr<PayloadTrial>> make(lathe_device* device, const Stream& stream,
                                                            const Json& function, int64_t rows, uint64_t seed,
                                                            absl::Span<const lathe_tuning> tunings);
  // All steps, on the trial's stream; does not wait for the last kernels. The seconds that the host spent on
  // what no kernel does, while the device was idle: elementwise steps without a program, and rows of an
  // argmax that lie apart.
  absl::StatusOr<double> launch();
  // Waits, then judges every step's result: the first that is wrong, or the one nearest to its bound. Then
  // what the function returns against what its text says, whatever the steps are.
  absl::StatusOr<CheckResult> verify();

  // Of the steps that kernels do: what they compute, and what their operands weigh.
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
  // The operand as a matrix of its own, `rows` and `columns` the letters of its dimensions.
  Operand gather(const PayloadStep& step, const char* name, char rows, char columns) const;
  Operand gather_argmax(const PayloadStep& step) const;
  CheckResult check_step(const PayloadStep& step);
  absl::Status check_meaning(CheckResult* all);
  CheckResult check(const PayloadStep& step, const Elementwise& desc);
  // What the host does of a step; *seconds: how long it took.
  absl::Status run_on_host(const PayloadStep& step, double* seconds);
  absl::Status evaluate(const Elementwise& step);
  // A copy of an argmax's input whose rows lie as its kernel reads them.
  absl::Status gather_rows(const PayloadStep& step);
  absl::Status download(Value* value);
  // An evaluator that knows the elements of `values`, and every shape.
  absl::StatusOr<Evaluator> evaluator_with(const std::vector<size_t>& values) const;
  CheckResult check(const PayloadStep& step, const lathe_matmul_desc& desc);
  CheckResult check(const PayloadStep& step, const lathe_argmax_desc& desc);
  CheckResult check(const PayloadStep& step, const lathe_matmul_argmax_desc& desc);

  lathe_device* device_;
  const Stream& stream_;
  Normal random_;
  const Json* function_ = nullptr;
  std::vector<Value> values_;
  std::map<const PayloadStep*, Value> rows_;  // copies that gather_rows makes
  std::vector<PayloadStep> steps_;
};

}  // namespace lathe::cli
