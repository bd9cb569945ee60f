#include "kernels/matmul/cpu/cost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cpu_costs.h"

namespace lathe {
namespace {

double coefficient(const DeviceFacts& facts, absl::string_view name) {
  for (const CpuCost& cost : cpu_costs())
    if (cost.processor == kDefaultCosts && cost.fact == name)
      return facts.fact_or(std::string(name), cost.value);
  return std::numeric_limits<double>::quiet_NaN();  // no plan; cost_model_test.cc compares the names
}

// Whether L1 holds all operands. Larger weights are priced as if they came from memory, as they do between two tokens.
bool is_tiny(const MatmulSizes& s, const CpuRates& rates) {
  const auto m = double(s.m), n = double(s.n), k = double(s.k);
  return m * k * s.input_bytes + n * k * s.b_bytes + m * n * s.output_bytes <= rates.l1d_bytes;
}

// The work of the whole call, for `lathe explain` and the fit.
std::vector<PricePart> parts_of(const TaskWork& work, double tasks) {
  return {
#define LATHE_PART(name, meaning) {#name, tasks * work.name},
      LATHE_CPU_WORK(LATHE_PART)
#undef LATHE_PART
  };
}

}  // namespace

CpuCosts::CpuCosts(const DeviceFacts& facts) {
#define LATHE_READ_COST(name, meaning) this->name = coefficient(facts, "cost_" #name);
  LATHE_CPU_WORK(LATHE_READ_COST)
#undef LATHE_READ_COST
  overlap = coefficient(facts, "cost_overlap");
  is_fitted = true;
}

double task_seconds(const CpuPricing& p, const TaskWork& w, double bandwidth) {
  const CpuCosts& c = p.costs;
  const double compute = w.issue * c.issue + w.loads * c.loads + w.conversions * c.conversions +
                         w.starts * c.starts + w.entries * c.entries + w.ends * c.ends + w.sums * c.sums +
                         w.lanes * c.lanes + w.copies * c.copies + w.turns * c.turns +
                         w.conflicts * c.conflicts + w.evicted * c.evicted + w.again * c.again;
  const double caches = w.l2 * c.l2 + w.l3 * c.l3;
  const double computing = compute / p.rates.clock_hz;
  const double reading = caches / p.rates.clock_hz +
                         (w.memory * c.memory + w.written * c.written) / bandwidth +
                         (w.runs * c.runs + w.jumps * c.jumps) * 1e-9;
  const double waiting =
      (w.unfetched * c.unfetched + w.unpaced * c.unpaced + w.narrow * c.narrow + w.crowded * c.crowded) /
          bandwidth +
      (w.groups * c.groups + w.tasks * c.tasks) * 1e-9;
  return std::max(computing, reading) + c.overlap * std::min(computing, reading) + waiting;
}

double count_reading(const CpuPricing& p, const Reading& r, TaskWork* work) {
  constexpr double kHeld = 0.75, kShared = 0.5;
  const double first = r.bytes / r.times, again = r.bytes - first;
  if (is_tiny(p.s, p.rates)) {
    work->l2 += r.bytes;
    return 0;
  }
  if (r.whole <= kHeld * p.rates.l2_bytes)
    work->l2 += again;
  else if (r.whole <= kShared * p.rates.l3_bytes)
    work->l3 += again;
  else
    work->memory += again;
  if (r.is_activation && r.whole <= kShared * p.rates.l3_bytes) {
    work->l3 += first;
    return 0;
  }
  work->memory += first;
  return first;
}

double padded_rows(const ProblemClass& c, double m, int64_t width) {
  if (c.m_hi == Bucket::kOpenEnd) return m;
  // Sum of M padded to the width, for M from 1 to `hi`.
  const auto up_to = [width](int64_t hi) {
    const int64_t whole = hi / width, rest = hi % width;
    return double(width) * double(width * (whole * (whole + 1) / 2) + rest * (whole + 1));
  };
  const double mean = (up_to(c.m_hi) - up_to(c.m_lo - 1)) / double(c.m_hi - c.m_lo + 1);
  return m * mean / double(c.m_hi);
}

absl::InlinedVector<int64_t, 8> task_sizes(absl::Span<const int64_t> listed, int64_t problem, int64_t step) {
  absl::InlinedVector<int64_t, 8> sizes;
  for (const int64_t size : listed) {
    const int64_t cut = std::min(round_up(size, step), round_up(problem, step));
    if (sizes.empty() || sizes.back() != cut) sizes.push_back(cut);
  }
  return sizes;
}

void append_tasks(const CpuPricing& p, const Tasks& t,
                  absl::FunctionRef<TaskWork(double m, double n, double k)> work,
                  absl::FunctionRef<CompileConfig(bool is_split)> config_of, RecipeOf recipe,
                  std::vector<RankedPlan>* out) {
  const auto m = double(p.s.m), n = double(p.s.n);
  const double row_tiles = std::ceil(m / double(t.m)), column_tiles = std::ceil(n / double(t.n));
  const double tiles = row_tiles * column_tiles;
  const SplitOptions all =
      t.can_split ? split_options(p.context, p.s.k, tiles, p.rates.workers, t.least_chunk) : SplitOptions{1};
  for (const int32_t splits : all) {
    const double k = std::ceil(double(p.s.k) / splits), tasks = tiles * splits;
    const double bandwidth = p.rates.bandwidth(tasks);
    const auto of = [&](double rows, double columns) {
      TaskWork w = work(rows, columns, k);
      const double bytes = rows * columns * (splits > 1 ? 4 : p.s.output_bytes);
      (is_tiny(p.s, p.rates) ? w.l2 : w.written) += 2 * bytes;
      w.tasks = 1;
      return w;
    };
    const TaskWork average = of(m / row_tiles, n / column_tiles);
    const double mean = task_seconds(p, average, bandwidth);
    const double largest =
        tasks > 1 && p.rates.workers > 1
            ? task_seconds(p, of(std::min(double(t.m), m), std::min(double(t.n), n)), bandwidth)
            : mean;
    const double whole = whole_tiles(m, double(t.m)) * whole_tiles(n, double(t.n)) * splits;
    const double predicted =
        p.rates.schedule_seconds(tasks, mean, largest, whole, t.entry_seconds) +
        (splits > 1 ? merge_seconds(p.s, splits, p.rates.bandwidth(p.rates.workers)) : 0);
    if (!p.context.wants(predicted)) continue;
    RankedPlan r;
    r.plan.config = config_of(splits > 1);
    r.plan.launch.splits = splits;
    r.plan.predicted_seconds = predicted;
    r.plan.numeric_recipe = recipe(splits);
    if (p.context.wants_rejected() && p.costs.is_fitted) r.price = parts_of(average, tasks);
    out->push_back(std::move(r));
  }
}

}  // namespace lathe
