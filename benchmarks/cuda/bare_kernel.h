// A cached kernel launched with nothing around it: what a cached call on a CUDA device is measured against.
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
  // Loads the single matmul kernel that the cache at `directory` holds, for these sizes and without splits:
  // one step, neither tensor maps nor memory of its own. Throws std::runtime_error for any other.
  BareKernel(const CudaDriver& driver, const std::string& directory, const Dims& dims);
  BareKernel(const BareKernel&) = delete;
  BareKernel& operator=(const BareKernel&) = delete;

  ArgumentBlock* arguments() { return &arguments_; }
  // cuLaunchKernelEx and nothing else; its result.
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
