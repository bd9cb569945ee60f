#include "kernels/matmul/cpu/candidates_streamed.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe {
namespace {

constexpr double kStreamBytes = 256 << 10;  // the least part of B that a task is worth starting for

// The choices of columns per task, at most `most`: enough tasks that workers finish together, or enough
// bytes per task.
absl::InlinedVector<int32_t, 3> task_columns(const CpuRates& rates, const MatmulSizes& s, int64_t step,
                                             int64_t tasks_a_worker, int64_t most, bool is_short) {
  const auto fit = [&](int64_t columns) {
    return static_cast<int32_t>(std::min({round_up(std::max<int64_t>(columns, 1), step), round_up(s.n, step),
                                          std::max(most / step, int64_t{1}) * step}));
  };
  const auto stream = static_cast<int64_t>(kStreamBytes / (s.k * s.b_bytes));
  if (is_short) return {fit(stream)};
  absl::InlinedVector<int32_t, 3> columns = {fit(ceil_div(s.n, tasks_a_worker * rates.workers))};
  if (fit(stream) != columns[0]) columns.push_back(fit(stream));
  // A small weight: all of a worker's columns at once, since each further task reads A again and pads its
  // last tile.
  if (double(s.n) * double(s.k) * s.b_bytes <= rates.l2_bytes) {
    const int32_t share = fit(ceil_div(s.n, int64_t{rates.workers}));
    if (std::find(columns.begin(), columns.end(), share) == columns.end()) columns.push_back(share);
  }
  return columns;
}

// The share of the smaller of computing and reading that a paced loop does not hide; CpuRates::overlap()
// assumes a quarter.
constexpr double kPacedWaits = 0.05;

}  // namespace

MatmulSizes::MatmulSizes(const ProblemClass& c)
    : m(representative_m(c)),
      n(c.n),
      k(c.k),
      input_bytes(size_of(c.a)),
      b_bytes(bytes_per_element(c.b)),
      output_bytes(size_of(c.d)),
      blocks(is_blocks(c.b)),
      decode_cycles(row_of(c.b).decode_cycles),
      narrow_a(c.a != DType::kF32),
      narrow_b(c.b != DType::kF32),
      batch_invariant(c.determinism == Determinism::kBatchInvariant) {}

bool has_short_epilogue(const ProblemClass& c) {
  constexpr int kMostInstructions = 3;
  const auto is_converted = [](DType t) { return t != DType::kNone && t != DType::kF32; };
  if (c.d == DType::kI32) return true;  // the sums themselves
  if (c.a == DType::kI8 || is_converted(c.d) || is_converted(c.c) || is_converted(c.bias) ||
      is_converted(c.residual))
    return false;
  if (c.activation != Activation::kNone && c.activation != Activation::kRelu) return false;
  const int of_alpha = 1, of_c = c.c != DType::kNone ? 2 : 0, of_bias = c.bias != DType::kNone,
            of_residual = c.residual != DType::kNone, of_relu = c.activation == Activation::kRelu;
  return of_alpha + of_c + of_bias + of_residual + of_relu <= kMostInstructions;
}

std::string operands_refusal(const ProblemClass& c) {
  if (c.packed_b != 0) return "does not support packed B";
  return is_f8(c.a) ? absl::StrCat("the CPU multiplies f32, f16, bf16 and i8, not ", name_of(c.a)) : "";
}

std::string forced_split_refusal(const CandidateContext& context) {
  if (context.problem.determinism != Determinism::kBatchInvariant || context.split_k <= 1) return "";
  return absl::StrCat("batch_invariant needs split_k 1, but split_k ", context.split_k, " is forced");
}

double lines_a_set(int64_t lines, int64_t line_bytes) {
  return std::ceil(double(lines) * double(std::gcd(kWayBytes, line_bytes)) / kWayBytes);
}

double row_padding(const ProblemClass& c, int64_t width, int64_t narrow) {
  if (c.m_hi == Bucket::kOpenEnd) return 1;
  // Sum of m padded to `w`, for m from 1 to `hi`.
  const auto up_to = [](int64_t hi, int64_t w) {
    const int64_t whole = hi / w, rest = hi % w;
    return double(w) * double(w * (whole * (whole + 1) / 2) + rest * (whole + 1));
  };
  const auto sum = [&](int64_t w) { return up_to(c.m_hi, w) - up_to(c.m_lo - 1, w); };
  return sum(width) / sum(narrow);
}

double tiny_padding(const ProblemClass& c, const MatmulSizes& s, int64_t width) {
  return (1 + row_padding(c, width, 1) * double(s.m) / double(round_up(s.m, width))) / 2;
}

bool is_tiny(const CpuRates& rates, const MatmulSizes& s) {
  const double b_bytes = double(s.n) * double(s.k) * s.b_bytes;
  return b_bytes + double(s.m) * (double(s.k) * s.input_bytes + double(s.n) * s.output_bytes) <=
         rates.l1d_bytes / 2;
}

double merge_seconds(const MatmulSizes& s, double splits, double bytes_per_second) {
  return double(s.m) * s.n * (splits * 4 + s.output_bytes) / bytes_per_second + kForkSeconds;
}

bool streamed::fits(const CandidateContext& context, const CpuRates& rates, const MatmulSizes& s,
                    const RegisterTile& t, const CompileConfig& config, std::vector<RankedPlan>* out,
                    int32_t held) {
  const bool transposed = config.kernel() == KernelKind::kDotT;
  const int32_t need = t.rows * t.columns + held + 1;
  if (need > rates.registers)
    reject(context, config, out, "tile needs ", need, " registers, the target has ", rates.registers);
  else if (t.rows > s.m)
    reject(context, config, out, "register tile has too many ", transposed ? "columns: " : "rows: ", t.rows,
           " for ", transposed ? "N " : "M ", s.m);
  else
    return true;
  return false;
}

void streamed::append_streamed(const CandidateContext& context, const CpuRates& rates, const MatmulSizes& s,
                               int64_t register_m, int64_t register_n, const Stream& stream,
                               const std::string& recipe,
                               absl::FunctionRef<double(double n, double k)> cycles,
                               absl::FunctionRef<CompileConfig(const StreamedTask& task)> config_of,
                               std::vector<RankedPlan>* out) {
  for (int32_t columns :
       task_columns(rates, s, register_n, stream.tasks_a_worker, stream.most_columns, stream.short_tasks)) {
    const double tiles = ceil_div(s.n, columns);
    const auto least_chunk = std::max<int64_t>(256, kStreamBytes / 4 / (columns * s.b_bytes));
    for (int32_t splits : split_options(context, s.k, tiles, rates.workers, least_chunk)) {
      const double tasks = tiles * splits, k = std::ceil(double(s.k) / splits);
      const double bandwidth = rates.bandwidth(tasks) * stream.efficiency;
      const auto seconds = [&](double n) {
        const double width = double(register_n), read = stream.whole_tiles ? std::ceil(n / width) * width : n;
        const double a_bytes = stream.rows_cached ? 0 : s.m * s.input_bytes;
        const double bytes = (read * s.b_bytes + a_bytes) * k + s.m * n * (splits > 1 ? 4 : s.output_bytes);
        const double compute = cycles(n, k) / rates.clock_hz, memory = bytes / bandwidth;
        if (stream.paced) return std::max(compute, memory) + kPacedWaits * std::min(compute, memory);
        const double after = compute * stream.after;
        return CpuRates::overlap(compute - after, memory) + after;
      };
      const double largest = seconds(std::min<double>(columns, s.n));
      const double last = seconds(s.n - (tiles - 1) * columns);
      const double predicted =
          rates.schedule_seconds(tasks, ((tiles - 1) * largest + last) / tiles, largest) +
          (splits > 1 ? merge_seconds(s, splits, rates.bandwidth(rates.workers)) : 0);
      if (!context.wants(predicted)) continue;
      RankedPlan r;
      r.plan.config = config_of({round_up(s.m, register_m), columns, splits > 1});
      r.plan.launch.splits = splits;
      r.plan.predicted_seconds = predicted;
      r.plan.numeric_recipe =
          recipe == kExactRecipe ? recipe : absl::StrCat(recipe, "; ", merge_recipe(splits));
      out->push_back(std::move(r));
    }
  }
}

}  // namespace lathe
