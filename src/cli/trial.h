// A request on random operands in a device's memory: launched as often as wanted, checked against float64.
#pragma once

#include <memory>

#include "cli/device_memory.h"
#include "cli/reference.h"
#include "cli/request.h"
#include "cli/session.h"

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

// reset, launch, verify, compare_bits.
absl::StatusOr<CheckResult> run_checked(Trial& trial);

// Both random operands and sampled elements are a function of `seed`. The device, the stream and the buffers
// they are uploaded with outlive the trial. kInvalidArgument for operands that fit no memory.
absl::StatusOr<std::unique_ptr<Trial>> make_trial(lathe_device* device, const Stream& stream,
                                                  const MatmulRequest& request, uint64_t seed);
absl::StatusOr<std::unique_ptr<Trial>> make_trial(lathe_device* device, const Stream& stream,
                                                  const ArgmaxRequest& request, uint64_t seed);
absl::StatusOr<std::unique_ptr<Trial>> make_trial(lathe_device* device, const Stream& stream,
                                                  const MatmulArgmaxRequest& request, uint64_t seed);

}  // namespace lathe::cli
