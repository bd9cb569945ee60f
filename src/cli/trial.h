// Runs a request on random operands in device memory, any number of times, and checks the result against float64.
#pragma once

#include <initializer_list>
#include <memory>

#include "absl/functional/function_ref.h"
#include "cli/device_memory.h"
#include "cli/ops.h"
#include "cli/session.h"
#include "reference/check.h"

namespace lathe::cli {

class Trial {
 public:
  virtual ~Trial() = default;

  // Launches the request on the trial's stream, and does not wait.
  virtual lathe_status launch() = 0;
  // Restores the result's memory as it was before the first launch. Waits for the last launch first.
  virtual absl::Status reset() = 0;
  // Waits, then checks the result of the last launch.
  virtual absl::StatusOr<reference::CheckResult> verify() = 0;
  // Waits. True if the result's memory is as reset() left it.
  virtual absl::StatusOr<bool> untouched() = 0;
  // Launches again and compares bits, if the request promises equal ones: run_to_run with the same request,
  // batch_invariant also with only its first rows. Returns what differs from the last launch; "" if nothing does.
  virtual absl::StatusOr<std::string> compare_bits() = 0;
  virtual absl::StatusOr<Plan> plan() const = 0;

  // For all later launches. The workspace is device memory of the caller; null: the library uses its own.
  virtual void set_miss_policy(lathe_miss_policy policy) = 0;
  virtual void set_workspace(void* data, size_t bytes) = 0;

  virtual bool needs_kernel() const = 0;
  virtual double flops() const = 0;  // 0: the op is not measured in FLOP/s
  virtual double bytes() const = 0;  // size of all operands, as far as a launch reads or writes them
  virtual double memory() const { return bytes(); }  // size of all operands
};

// The chain of a trial's descriptor: the caller's workspace and the tuning, each of which may be absent.
class TrialChain {
 public:
  // `tuned` is the chain of a descriptor that was made with tuning().
  void take(const lathe_chain* tuned) { tuned_ = tuned; }
  lathe_tuning* tuning() { return &tuning_; }
  // Returns the descriptor's new `next`. Null `data`: the chain without a workspace.
  const lathe_chain* with_workspace(void* data, size_t bytes);

 private:
  lathe_tuning tuning_ = LATHE_TUNING_INIT;
  const lathe_chain* tuned_ = nullptr;
  lathe_workspace workspace_ = LATHE_WORKSPACE_INIT;
};

// Copies the operand to new device memory and sets *first to its first element. Does nothing if the operand does not
// exist.
absl::Status place(lathe_device* device, const Stream& stream, const reference::Operand& operand,
                   DeviceBuffer* buffer, void** first);
// The host memory that a trial with these operands needs. It keeps an extra copy of each output for reset().
double trial_bytes(const Stream& stream, std::initializer_list<const reference::OperandSpec*> inputs,
                   std::initializer_list<const reference::OperandSpec*> outputs);
// To be called before operands are made: an error if the library refuses the request, or if `bytes` do not fit in
// memory.
template <typename Request>
absl::Status check_room(lathe_device* device, const Request& request, double bytes) {
  if (absl::Status s = explain(device, request).status(); !s.ok()) return s;
  return check_memory(command_of(request), bytes);
}
// For Trial::compare_bits. Calls `launch` with numbers of rows for which `determinism` promises the bits of the last
// launch, which had `rows`; with less than all only if `cuts_rows`. `launch` resets, launches only the first rows and
// downloads; `result` returns the bytes of the first rows.
absl::StatusOr<std::string> compare_launches(lathe_determinism determinism, int64_t rows, bool cuts_rows,
                                             absl::FunctionRef<std::string(int64_t rows)> result,
                                             absl::FunctionRef<absl::Status(int64_t rows)> launch);
// The total size of the operands that exist.
double total_bytes(std::initializer_list<const reference::Operand*> operands);

// To be called between timing a library and the next measurement: OpenBLAS's idle threads spin for 2^26 cycles on the
// same cores. (OpenMP's do not spin, see main().) Returns the seconds slept.
double let_threads_end_spinning();

// Calls reset, launch, verify and compare_bits.
absl::StatusOr<reference::CheckResult> run_checked(Trial& trial);

// Makes a trial. The operands and the choice of checked elements depend only on `seed`. The device and the stream must
// outlive the trial. Errors: as for check_room, before memory is allocated.
#define LATHE_DECLARE(name, request, rows)                                                      \
  absl::StatusOr<std::unique_ptr<Trial>> make_trial(lathe_device* device, const Stream& stream, \
                                                    const request& r, uint64_t seed);
LATHE_COMMAND_OPS(LATHE_DECLARE)
#undef LATHE_DECLARE
absl::StatusOr<std::unique_ptr<Trial>> make_trial(lathe_device* device, const Stream& stream,
                                                  const AnyRequest& request, uint64_t seed);

}  // namespace lathe::cli
