// What the forms that stream B once share, in prices and candidates: "dot", "outer" and "bytes".
#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"

namespace lathe::streamed {

struct RegisterTile {
  int32_t rows, columns;  // dot: rows of B; outer: vectors along N
};

// Whether the tile's sums have registers and rows; appends why not. `held`: vectors beside its sums that stay
// in registers for a step.
bool fits(const CandidateContext& context, const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t,
          CompileConfig config, std::vector<RankedPlan>* out, int32_t held);

// Tiles of few sums leave the loop over k short: two steps of it a turn.
inline int32_t unroll_of(const RegisterTile& t) { return t.rows * t.columns <= 8 ? 2 : 1; }

// Cycles that a turn is held to, in whole links of its chain, or half ones where it is a line: its share of
// what a line of each column takes at the pace, where its arithmetic is done sooner.
int32_t pace_of(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, int32_t unroll);

constexpr int64_t kMaxTileN = 4096;
// How B comes by.
struct Stream {
  double efficiency = 1;  // of memory's rate
  bool paced = false;     // held to it, or fetched so that computing is hidden
  double after = 0;       // of computing, what comes when B was read and nothing is fetched for later
  bool rows_cached = false;
  bool short_tasks = false;          // of no more than makes one worth starting
  int64_t most_columns = kMaxTileN;  // of a task
};

// Prices one row for every task width and split and appends it. `cycles(n, k)` computes n columns over k.
void append_streamed(const CandidateContext& context, const CpuRates& rates, const MatmulSizes& s,
                     const CompileConfig& config, const Stream& stream, const std::string& recipe,
                     absl::FunctionRef<double(double n, double k)> cycles, std::vector<RankedPlan>* out);

}  // namespace lathe::streamed
