// How "dot", "outer" and "bytes" divide B into tasks: all rows of A by some columns.
#pragma once

#include <string>
#include <vector>

#include "kernels/matmul/cpu/cost_model.h"

namespace lathe::streamed {

constexpr int64_t kMaxTileN = 4096;
struct Columns {
  int64_t step;              // of the register tile
  bool short_tasks = false;  // tasks as small as is worthwhile
  int64_t most = kMaxTileN;  // of a task
  int64_t tasks_a_worker = 4;
};
// Prices and appends a plan for every number of columns per task and every split. `config_of(columns, is_split)`.
void append_streamed(const CpuPricing& p, const Columns& columns,
                     absl::FunctionRef<TaskWork(double n, double k, int64_t columns)> work,
                     absl::FunctionRef<CompileConfig(int64_t columns, bool is_split)> config_of,
                     absl::FunctionRef<std::string(int32_t splits)> recipe, std::vector<RankedPlan>* out);

}  // namespace lathe::streamed
