// Prices and candidates that "dot", "outer" and "bytes" share: kernels that stream B once.
#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"

namespace lathe::streamed {

struct RegisterTile {
  int32_t rows, columns;  // "dot": rows of B; "outer": vectors along N
};

// Whether the tile fits the registers and M; if not, appends the reason. `held`: vectors beside its sums
// that stay in registers for a step.
bool fits(const CandidateContext& context, const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t,
          const CompileConfig& config, std::vector<RankedPlan>* out, int32_t held);

// Tiles of few sums have a short loop over k: two steps per iteration.
inline int32_t unroll_of(const RegisterTile& t) { return t.rows * t.columns <= 8 ? 2 : 1; }

// `pace` of a config: an iteration's share of the time of its cache lines at the pace, in whole links of
// the dependency chain, or half ones; 0 if its arithmetic takes longer.
int32_t pace_of(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, int32_t unroll);

constexpr int64_t kMaxTileN = 4096;
// How B is streamed.
struct Stream {
  double efficiency = 1;  // share of the memory rate
  bool paced = false;     // paced or prefetched so that memory hides computing
  double after = 0;       // share of computing after B was read, while nothing is prefetched
  bool rows_cached = false;
  bool short_tasks = false;          // tasks as small as is worthwhile
  int64_t most_columns = kMaxTileN;  // per task
  int64_t tasks_a_worker = 4;
  bool whole_tiles = false;  // reads the columns of whole register tiles, as a pace counts them
};
struct StreamedTask {
  int64_t rows, columns;
  bool is_split;
};

// Prices and appends one row for every task width and split. `cycles(n, k)` computes n columns over k.
// `register_m`, `register_n`: of the register tile. `config_of(task)`: the config of a task.
void append_streamed(const CandidateContext& context, const CpuRates& rates, const MatmulSizes& s,
                     int64_t register_m, int64_t register_n, const Stream& stream, const std::string& recipe,
                     absl::FunctionRef<double(double n, double k)> cycles,
                     absl::FunctionRef<CompileConfig(const StreamedTask& task)> config_of,
                     std::vector<RankedPlan>* out);

}  // namespace lathe::streamed
