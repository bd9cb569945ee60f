// A request on random operands in a device's memory: launched as often as wanted, checked against float64.
#pragma once

#include <initializer_list>
#include <memory>

#include "cli/device_memory.h"
#include "cli/planned.h"
#include "cli/request.h"
#include "cli/session.h"
#include "reference/reference.h"

namespace lathe::cli {

class Trial {
 public:
  virtual ~Trial() = default;

  // On the trial's stream; does not wait for it.
  virtual lathe_status launch() = 0;
  // Makes the result's memory what it was before the first launch, which also waits for the last one.
  virtual absl::Status reset() = 0;
  // Waits, then judges what the last launch wrote.
  virtual absl::StatusOr<CheckResult> verify() = 0;
  // Waits; true when the result's memory is as reset() left it.
  virtual absl::StatusOr<bool> untouched() = 0;
  // Launches again what promises equal bits: run_to_run the same request, batch_invariant its first rows
  // alone too. Says what differed from the last launch; "" when nothing did or nothing was promised.
  virtual absl::StatusOr<std::string> compare_bits() = 0;
  virtual absl::StatusOr<Plan> plan() const = 0;

  // Of the launches from now on. The workspace, of the device's memory, is the caller's; null: the library's
  // own.
  virtual void set_miss_policy(lathe_miss_policy policy) = 0;
  virtual void set_workspace(void* data, size_t bytes) = 0;

  virtual bool needs_kernel() const = 0;
  virtual double flops() const = 0;  // 0: not what it is measured in
  virtual double bytes() const = 0;  // of all operands
};

// The chain of a trial's descriptor: the tuning, where there is one, behind the caller's workspace, where
// there is one.
class TrialChain {
 public:
  // Of a descriptor that was made with tuning().
  void take(const lathe_chain* tuned) { tuned_ = tuned; }
  lathe_tuning* tuning() { return &tuning_; }
  // What the descriptor's `next` is to be; null data: without a workspace.
  const lathe_chain* with_workspace(void* data, size_t bytes);

 private:
  lathe_tuning tuning_ = LATHE_TUNING_INIT;
  const lathe_chain* tuned_ = nullptr;
  lathe_workspace workspace_ = LATHE_WORKSPACE_INIT;
};

// Copies the operand to memory of its own; *first is where its first element is then, untouched where the
// operand does not exist.
absl::Status place(lathe_device* device, const Stream& stream, const Operand& operand, DeviceBuffer* buffer,
                   void** first);
// What a trial of such operands takes of the host's memory: how an output begins is kept beside it.
double trial_bytes(const Stream& stream, std::initializer_list<const OperandForm*> inputs,
                   std::initializer_list<const OperandForm*> outputs);
// Before they are made: what the library refuses, and what this machine's memory does not hold.
template <typename Request>
absl::Status check_room(lathe_device* device, const Request& request, double bytes) {
  if (absl::Status s = explain(device, request).status(); !s.ok()) return s;
  return check_memory(command_of(request), bytes);
}
// Of all that exist.
double total_bytes(std::initializer_list<const Operand*> operands);

// To be called between timing a library and whatever is timed next: OpenBLAS' threads spin for 2^26 cycles,
// on the cores of that, and OpenMP's, as main() has it, not at all. Answers the seconds slept.
double let_threads_end_spinning();

// reset, launch, verify, compare_bits.
absl::StatusOr<CheckResult> run_checked(Trial& trial);

// Both random operands and sampled elements are a function of `seed`. The device, the stream and the buffers
// they are uploaded with outlive the trial. Errors: as check_room, before any memory is taken.
absl::StatusOr<std::unique_ptr<Trial>> make_trial(lathe_device* device, const Stream& stream,
                                                  const MatmulRequest& request, uint64_t seed);
absl::StatusOr<std::unique_ptr<Trial>> make_trial(lathe_device* device, const Stream& stream,
                                                  const ArgmaxRequest& request, uint64_t seed);
absl::StatusOr<std::unique_ptr<Trial>> make_trial(lathe_device* device, const Stream& stream,
                                                  const MatmulArgmaxRequest& request, uint64_t seed);

}  // namespace lathe::cli
