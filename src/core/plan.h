// A plan: the oracle's decision for one problem class. CompileConfig determines the generated code and is
// part of the cache key. LaunchPolicy only affects how a launch is computed from the true sizes.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/kernel_configs.h"
#include "core/problem.h"
#include "core/recipe.h"

namespace lathe {

// The micro-kernel (C code compiled to bitcode, kernels/candidates_ukernel.h) that a kernel is built around.
// Written as #lathe.ukernel on the payload op. All strings are empty if there is none.
struct UkernelRef {
  std::string function;  // defined in the bitcode
  // A file of kernels/<op>/ukernel and the target that it was compiled for: "argmax/rows@x86-64-v4".
  std::string bitcode;
  std::string attributes;  // LLVM attributes of the function, space-separated: "alwaysinline nounwind"
  bool operator==(const UkernelRef& o) const;
};

// The routine of an external library that computes the op. Written as #lathe.external on the payload op. All
// strings are empty if there is none.
struct ExternalRef {
  std::string provider;  // a name from core/external.h, such as "openblas"
  std::string routine;   // such as "cblas_sgemm"
  bool operator==(const ExternalRef& o) const { return provider == o.provider && routine == o.routine; }
};

// How a kernel is built. The compiler's passes read it from #lathe.kernel_config, #lathe.ukernel and
// #lathe.external on the payload op.
struct CompileConfig : KernelConfig {
  using KernelConfig::KernelConfig;
  CompileConfig() = default;
  CompileConfig(const KernelConfig& config, UkernelRef ref) : KernelConfig(config), ukernel(std::move(ref)) {}
  UkernelRef ukernel = {};    // of KernelKind::kUkernel
  ExternalRef external = {};  // of KernelKind::kExternal
  bool operator==(const CompileConfig& o) const;
};
// Rows of D that one workgroup merges in a matmul's second step: enough to give each thread four columns. On
// the CPU, where a task has one thread, the result is 1.
inline int64_t merge_rows(int64_t threads, int64_t tile_n) {
  return std::max<int64_t>(1, 4 * threads / tile_n);
}
Json to_json(const CompileConfig& c);
absl::StatusOr<CompileConfig> compile_config_from_json(const Json& j);

struct LaunchPolicy {
  // Requested number of splits (argmax: of all rows together). Each launch reduces it so that no split is
  // empty. Greater than 1 only where the config's split allows it.
  int32_t splits = 1;
};

struct Plan {
  CompileConfig config;
  LaunchPolicy launch;
  double predicted_seconds = 0;
  // GPU: workgroups per compute unit that the cost model assumes; 0: it makes no assumption.
  int32_t resident = 0;
  std::string numeric_recipe;  // "fma f32; K ascending in blocks of 256; 1 split; no merge"
};

// One kind of work that a cost model counted, for a whole call.
struct PricePart {
  const char* name;
  double count;
};

struct RankedPlan {
  Plan plan;
  std::string rejection;              // empty if legal, otherwise the reason: "smem 262144 > 232448"
  std::vector<PricePart> price = {};  // CPU matmul, only for explanations
};

}  // namespace lathe
