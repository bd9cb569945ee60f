// Launches a cached kernel directly. The cost of a cached call on a CUDA device is measured against it.
#pragma once

#include <memory>
#include <string>

#include "core/args.h"
#include "core/recipe.h"
#include "cuda/driver.h"
#include "runtime/gpu/types.h"

namespace lathe::bench {

class BareKernel {
 public:
  // Loads the only matmul kernel in the cache at `directory`, for these sizes. The kernel must have one step
  // and no splits, tensor maps, workspace or counters; else throws std::runtime_error.
  BareKernel(const CudaDriver& driver, const std::string& directory, const Dims& dims);
  BareKernel(const BareKernel&) = delete;
  BareKernel& operator=(const BareKernel&) = delete;

  ArgumentBlock* arguments() { return &arguments_; }
  // Calls cuLaunchKernelEx and returns its result.
  int enqueue(void* stream) {
    config_.stream = static_cast<gpu::Stream>(stream);
    return launch_(&config_, function_, nullptr, extra_);
  }

 private:
  using LaunchFunction = int (*)(const gpu::LaunchConfiguration*, void*, void**, void**);

  LaunchFunction launch_;
  void* function_ = nullptr;
  ArgumentBlock arguments_;
  size_t bytes_ = sizeof(ArgumentBlock);
  gpu::LaunchAttribute attributes_[2];
  gpu::LaunchConfiguration config_ = {};
  void* extra_[5];
};

}  // namespace lathe::bench
