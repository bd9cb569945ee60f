#include "kernels/matmul/cpu/candidates_streamed.h"

#include <algorithm>
#include <cmath>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe::streamed {
namespace {

constexpr double kStreamBytes = 256 << 10;  // the least part of B that a task is worth starting for

// The choices of columns per task: enough tasks that workers finish together, or enough bytes per task.
absl::InlinedVector<int64_t, 3> task_columns(const CpuPricing& p, const Columns& c) {
  const MatmulSizes& s = p.s;
  const auto fit = [&](int64_t columns) {
    return std::min({round_up(std::max<int64_t>(columns, 1), c.step), round_up(s.n, c.step),
                     std::max(c.most / c.step, int64_t{1}) * c.step});
  };
  const int64_t stream = fit(static_cast<int64_t>(kStreamBytes / (double(s.k) * s.b_bytes)));
  if (c.short_tasks) return {stream};
  absl::InlinedVector<int64_t, 3> columns = {fit(ceil_div(s.n, c.tasks_a_worker * p.rates.workers))};
  if (stream != columns[0]) columns.push_back(stream);
  const auto also = [&](int64_t n) {
    if (std::find(columns.begin(), columns.end(), fit(n)) == columns.end()) columns.push_back(fit(n));
  };
  // A small weight: all of a worker's columns at once, since each further task reads A again and pads its last tile.
  const bool is_small = double(s.n) * double(s.k) * s.b_bytes <= p.rates.l2_bytes;
  if (is_small || c.repeats_a) also(ceil_div(s.n, int64_t{p.rates.workers}));
  if (c.repeats_a) also(s.n);  // workers can also divide K
  return columns;
}
}  // namespace

std::string tile_refusal(const CpuPricing& p, const RegisterTile& t, int32_t held, bool transposed) {
  const int32_t need = t.rows * t.columns + held + 1;
  if (need > p.rates.registers)
    return absl::StrCat("tile needs ", need, " registers, the target has ", p.rates.registers);
  if (t.rows > p.s.m)
    return absl::StrCat("register tile has too many ", transposed ? "columns: " : "rows: ", t.rows, " for ",
                        transposed ? "N " : "M ", p.s.m);
  return "";
}

int32_t unroll_of(const RegisterTile& t) { return t.rows * t.columns <= 8 ? 2 : 1; }

double crossed_lines(double pitch_bytes, double vector_bytes) {
  constexpr double kLine = 64;
  return std::fmod(pitch_bytes, kLine) == 0 ? 0 : std::min(1.0, vector_bytes / kLine);
}

void count_rows(const CpuPricing& p, double bytes, double times, TaskWork* w) {
  (bytes > 0.75 * p.rates.l2_bytes ? w->l3 : w->l2) += bytes * times;
}

int64_t pace_for(const CpuPricing& p, const RegisterTile& t, int64_t unroll, double arithmetic) {
  const CpuRates& rates = p.rates;
  if (rates.pace_bytes_per_second == 0 || p.s.blocks || (p.s.m == 1 && rates.prefetches_into_l1)) return 0;
  const double bytes = double(unroll) * t.columns * rates.lanes * rates.k_per_lane * p.s.b_bytes;
  const double cycles = std::min<double>(
      kMostPace, bytes * rates.clock_hz / rates.pace_bytes_per_second / double(ceil_div(p.s.m, t.rows)));
  if (cycles <= double(unroll) * arithmetic) return 0;
  const int64_t grain = bytes > 64 && !rates.prefetches_into_l1 ? kPaceLinkCycles : kPaceHalfLinkCycles;
  return std::lround(cycles / double(grain)) * grain;
}

void append_streamed(const CpuPricing& p, const Columns& columns,
                     absl::FunctionRef<TaskWork(double n, double k, int64_t columns)> work,
                     absl::FunctionRef<CompileConfig(int64_t columns, bool is_split)> config_of,
                     RecipeOf recipe, std::vector<RankedPlan>* out) {
  for (const int64_t tile_n : task_columns(p, columns)) {
    Tasks tasks;
    tasks.m = p.s.m, tasks.n = tile_n;
    tasks.least_chunk =
        std::max<int64_t>(256, static_cast<int64_t>(kStreamBytes / 4 / (double(tile_n) * p.s.b_bytes)));
    append_tasks(
        p, tasks, [&](double, double n, double k) { return work(n, k, tile_n); },
        [&](bool is_split) { return config_of(tile_n, is_split); }, recipe, out);
  }
}
}  // namespace lathe::streamed
