// The CPU's cost model. A kernel counts the work of one task; task_seconds() multiplies each count by a coefficient
// and adds the products. Coefficients are data: `costs/*.json`, one file per microarchitecture, fitted by
// benchmarks/fit_costs.py.
#pragma once

#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"

namespace lathe {

// X(name, meaning). Processor cycles: `issue` to `l3`. Multiples of the time of a byte at the memory rate: `memory`,
// `unfetched`, `unpaced`, `narrow`, `crowded`, `written`. Nanoseconds: `runs`, `jumps`, `groups`, `tasks`.
#define LATHE_CPU_WORK(X)                                                                                \
  X(issue, "cycles in which FMAs start, or loads if they take longer; of decoding")                      \
  X(loads, "cycles of the shorter of the two")                                                           \
  X(conversions, "vectors that are widened or shifted")                                                  \
  X(starts, "entries of the loop over K")                                                                \
  X(entries, "the same in \"dot\", which loads no sums")                                                 \
  X(ends, "ends of long loops over K after which lanes are added up")                                    \
  X(sums, "bytes of accumulators that are loaded or stored between K blocks")                            \
  X(lanes, "vectors whose lanes are added up")                                                           \
  X(copies, "vectors that are packed without a transposition")                                           \
  X(turns, "vectors that are transposed")                                                                \
  X(conflicts, "loads of rows that evict each other from a set of L1")                                   \
  X(evicted, "bytes of B that \"outer\" reads again, because rows of B evict each other from L1")        \
  X(again, "bytes of B in L2 or L3 that the next rows of \"outer\" read again, beside FMAs")             \
  X(l2, "bytes that loops read from L2")                                                                 \
  X(l3, "bytes that loops read from L3")                                                                 \
  X(memory, "bytes that are read from memory")                                                           \
  X(unfetched, "bytes from memory that no software prefetch covers")                                     \
  X(unpaced, "bytes from memory in loops without a pace, if the processor has one")                      \
  X(narrow, "bytes from memory, divided by the number of streams that are read side by side")            \
  X(crowded, "bytes from memory, times the streams above four that only hardware prefetches, over four") \
  X(written, "bytes of D that are read and then written")                                                \
  X(runs, "reads that begin at another page or K block")                                                 \
  X(jumps, "the same, if software prefetched them")                                                      \
  X(groups, "groups of columns whose first lines nothing prefetched")                                    \
  X(tasks, "tasks that are taken and entered")

struct TaskWork {
#define LATHE_WORK_FIELD(name, meaning) double name = 0;
  LATHE_CPU_WORK(LATHE_WORK_FIELD)
#undef LATHE_WORK_FIELD
};

struct CpuCosts {
  CpuCosts() = default;
  explicit CpuCosts(const DeviceFacts& facts);
#define LATHE_COST_FIELD(name, meaning) double name = 0;
  LATHE_CPU_WORK(LATHE_COST_FIELD)
#undef LATHE_COST_FIELD
  bool is_fitted = false;  // to the processor
  double overlap = 0;      // the share of the shorter of computing and reading that the longer does not hide
};

// What every price of a CPU kernel depends on.
struct CpuPricing {
  explicit CpuPricing(const CandidateContext& candidate_context)
      : CpuPricing(candidate_context, CpuCosts(candidate_context.facts)) {}
  CpuPricing(const CandidateContext& candidate_context, const CpuCosts& coefficients)
      : context(candidate_context),
        rates(candidate_context),
        s(candidate_context.problem),
        costs(coefficients) {}
  const CandidateContext& context;
  CpuRates rates;
  MatmulSizes s;
  CpuCosts costs;
};

// The predicted time of a task: the longer of computing and reading, a share of the shorter one, and waits that
// nothing hides. `bandwidth`: bytes per second from memory while all workers read.
double task_seconds(const CpuPricing& p, const TaskWork& work, double bandwidth);

// An operand of `whole` bytes, of which a task reads `bytes`. `times` tasks read each byte: the first one from memory,
// or from L3 if it is an activation that L3 holds, the others from the cache that holds the operand.
struct Reading {
  double bytes, whole, times;
  bool is_activation;  // was just written, so L3 holds it if it can
};
// Adds what a task reads to its work, and returns the bytes that come from memory.
double count_reading(const CpuPricing& p, const Reading& reading, TaskWork* work);

// The rows that tiles of `width` compute, on average over the M of the bucket, of a task that has `m` rows of the
// largest M.
double padded_rows(const ProblemClass& c, double m, int64_t width);

// The tasks of a plan: tiles of D, and the least part of K that a split may have.
struct Tasks {
  int64_t m, n;
  int64_t least_chunk;
  bool can_split = true;
  double entry_seconds = 0;  // to take a task and enter it, if TaskWork::tasks does not count that
};
// The listed sizes of a task, rounded up to the register tile's `step` and cut to the problem, each of them once.
absl::InlinedVector<int64_t, 8> task_sizes(absl::Span<const int64_t> listed, int64_t problem, int64_t step);
using RecipeOf = absl::FunctionRef<std::string(int32_t splits)>;
// Prices the tasks for every number of splits worth trying, and appends the plans. `work(m, n, k)`: of a task.
void append_tasks(const CpuPricing& p, const Tasks& tasks,
                  absl::FunctionRef<TaskWork(double m, double n, double k)> work,
                  absl::FunctionRef<CompileConfig(bool is_split)> config_of, RecipeOf recipe,
                  std::vector<RankedPlan>* out);

}  // namespace lathe
