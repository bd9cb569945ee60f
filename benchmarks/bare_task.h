// Calls a cached kernel directly, without Lathe's dispatch. The cost of dispatch is measured against it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/args.h"
#include "core/recipe.h"
#include "runtime/cpu/object_loader.h"

namespace lathe::bench {

class BareTask {
 public:
  // Links the only matmul kernel in the cache at `directory` and prepares its arguments for `dims`. Fails if
  // the cache does not hold exactly one kernel.
  static absl::StatusOr<std::unique_ptr<BareTask>> load(const std::string& directory, const Dims& dims);

  ArgumentBlock* arguments() { return &arguments_; }
  void call() const {
    for (const Step& step : steps_) {
      for (int64_t task = 0; task < step.tasks; ++task) step.entry(&arguments_, task);
    }
  }

 private:
  struct Step {
    CpuTask entry;
    int64_t tasks;
  };
  ObjectLoader loader_;
  std::vector<Step> steps_;
  std::vector<uint8_t> memory_;  // workspace and scratch
  ArgumentBlock arguments_;
};

}  // namespace lathe::bench
