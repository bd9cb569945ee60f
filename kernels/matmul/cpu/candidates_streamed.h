// What "dot", "outer" and "bytes" share: how they divide B into tasks of all rows of A by some columns, and prices of
// register tiles.
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
  bool repeats_a = false;  // each task reads A from memory, or rounds it: also as few tasks as possible
};
// Prices and appends a plan for every number of columns per task and every split. `config_of(columns, is_split)`.
void append_streamed(const CpuPricing& p, const Columns& columns,
                     absl::FunctionRef<TaskWork(double n, double k, int64_t columns)> work,
                     absl::FunctionRef<CompileConfig(int64_t columns, bool is_split)> config_of,
                     RecipeOf recipe, std::vector<RankedPlan>* out);

struct RegisterTile {
  int32_t rows, columns;  // "dot": rows of B; "outer": vectors along N
};
// The share of L1 that holds what is read again beside other data.
constexpr double kShareOfL1 = 0.6, kShareOfBoth = 0.75;

// Why a register tile cannot be used, "" if it can. `held`: vectors beside its sums that stay in registers.
std::string tile_refusal(const CpuPricing& p, const RegisterTile& t, int32_t held, bool transposed);
// Tiles of few sums have a short loop over k: two steps per iteration.
int32_t unroll_of(const RegisterTile& t);
// The part of the vectors along lines of this pitch that cross the end of a cache line.
double crossed_lines(double pitch_bytes, double vector_bytes);
// A's rows, which L1 does not hold and every group of columns reads again.
void count_rows(const CpuPricing& p, double bytes, double times, TaskWork* w);
// `pace`: an iteration's share of the time of its cache lines at the pace, in whole links of the dependency chain, or
// half ones; 0 if its arithmetic takes longer.
int64_t pace_for(const CpuPricing& p, const RegisterTile& t, int64_t unroll, double arithmetic);

}  // namespace lathe::streamed
