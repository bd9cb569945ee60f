// A kernel on a GPU: its checked recipe in the form that a launch reads, and its code in each context that
// ran it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/driver.h"
#include "runtime/external/library.h"
#include "runtime/flat_formula.h"
#include "runtime/gpu/contexts.h"
#include "runtime/gpu/tensor_map.h"

namespace lathe::gpu {

// A device's limits for kernels, from its facts.
struct KernelLimits {
  std::string arch;  // "sm_90a"
  int64_t workgroup_size = 1024;
  int64_t shared_bytes = 48 << 10;  // the most that a workgroup can request
  bool has_clusters = false;        // clusters and programmatic dependent launch
  bool is_rocm = false;
};
KernelLimits limits_of(const DeviceFacts& facts);

class Kernel final : public LoadedKernel {
 public:
  static constexpr size_t kMaxSteps = 8, kMaxMaps = 8;  // so that a launch needs only stack memory

  struct LaunchStep {
    unsigned block[3];
    unsigned cluster[3];
    bool clustered = false, programmatic = false;
    FlatFormulas sizes;  // grid x, y, z, dynamic shared memory
    std::vector<TensorMapPlan> maps;
    int64_t most_x = 0;  // the most workgroups along x in one launch
    // If not null, an external library does the step, in the primary context only.
    std::unique_ptr<ExternalCall> external;
  };
  // The code in one context. It lives as long as the kernel.
  struct Loaded {
    Context context = nullptr;
    Module module = nullptr;
    Function functions[kMaxSteps] = {};
    const Loaded* next = nullptr;
  };

  // Rejects what this device cannot run (kInvalidArgument with the cause). Then loads all code into the
  // primary context, so that no first launch waits for the driver. kDataLoss, with the driver's log: the
  // driver rejects this form of the code. kUnavailable: an external library's routine is missing. `library`
  // and `contexts` must outlive the kernel.
  static absl::StatusOr<std::unique_ptr<LoadedKernel>> load(const Artifact& artifact, const Library& library,
                                                            const Contexts& contexts,
                                                            const KernelLimits& limits,
                                                            ExternalLibraries& externals,
                                                            const Driver* owner);
  ~Kernel() override;

  const std::vector<LaunchStep>& steps() const { return steps_; }
  const std::string& symbol(size_t step) const { return recipe_.steps[step].symbol; }
  const Driver* owner() const { return owner_; }
  // Whether an external library does every step, so that there is no code.
  bool is_external() const { return format_ == CodeFormat::kNone; }
  // The code in `context`, or null if the context has not run the kernel yet. No lock.
  const Loaded* in(Context context) const {
    const Loaded* loaded = loaded_.load(std::memory_order_acquire);
    while (loaded != nullptr && loaded->context != context) loaded = loaded->next;
    return loaded;
  }
  // CUDA: bytes of local memory per thread of the step's code, which hold what did not fit in registers.
  int local_bytes(size_t step) const { return local_bytes_[step]; }
  // The driver's messages about PTX that it assembled for the primary context (core/assembler_log.h).
  const std::vector<std::string>& messages() const { return messages_; }
  // As in(), but loads the code into `context`, which must be current, if it is not there yet.
  absl::StatusOr<const Loaded*> load_into(Context context) const {
    std::string info;
    return load_into(context, &info);
  }

 private:
  absl::StatusOr<const Loaded*> load_into(Context context, std::string* info) const;
  Kernel(const Artifact& artifact, const Library& library, const Driver* owner);
  absl::Status load_module(Loaded* loaded, std::string* info) const;
  absl::Status prepare_function(size_t step, Function function) const;
  absl::Status check_parameters(size_t step, Function function) const;

  const Library& library_;
  const Driver* const owner_;
  const CodeFormat format_;
  const std::string code_;
  int64_t shared_limit_ = 0;
  int local_bytes_[kMaxSteps] = {};
  std::vector<std::string> messages_;
  std::vector<LaunchStep> steps_;
  mutable std::mutex mutex_;                              // held while code is loaded into a new context
  mutable std::vector<std::unique_ptr<Loaded>> modules_;  // under mutex_
  mutable std::atomic<const Loaded*> loaded_{nullptr};    // list of modules_, newest first
};

}  // namespace lathe::gpu
