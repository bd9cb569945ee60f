#include "kernels/matmul/candidates_external.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/matmul/candidates.h"

namespace lathe {
namespace {

// A library's time over the time its work needs: multiply-adds at the threads' peak, overlapped with moving
// each operand once. `m`: the largest M that the row holds for.
struct Slowdown {
  int64_t m;
  double times;
};
// Measured with `lathe run --external` for f32, 4096 x 4096 weights stored [N, K], one thread of a Zen 4
// core; OpenBLAS 0.3.21 and oneDNN 2.6. Entries above M = 16 include the ratio of Lathe's own prediction to
// the roofline, because the choice compares two predictions. oneDNN's last entry is rounded up so that noise
// never selects it.
constexpr Slowdown kOpenBlas[] = {{1, 6.4}, {4, 4.2}, {16, 3.6}, {64, 1.9}, {INT64_MAX, 1.12}};
constexpr Slowdown kOneDnn[] = {{1, 2.5}, {4, 1.75}, {16, 1.9}, {64, 1.25}, {INT64_MAX, 1.05}};
// Fixed cost of a call: oneDNN looks up its primitive, OpenBLAS starts at once. Waking threads (kForkSeconds)
// is added to both.
constexpr double kOneDnnCall = 2e-6, kOpenBlasCall = 0.3e-6;

template <size_t kRows>
double cpu_seconds(const CandidateContext& context, int32_t threads, const Slowdown (&table)[kRows],
                   double call) {
  const ProblemClass& c = context.problem;
  CandidateContext on = {c, context.facts, threads, 0};
  const CpuRates rates(on);
  const auto m = static_cast<double>(representative_m(c)), n = static_cast<double>(c.n),
             k = static_cast<double>(c.k);
  const double peak = rates.lanes * rates.k_per_lane * rates.fma_units * rates.clock_hz * rates.workers;
  const double bytes =
      (m * k + k * n) * static_cast<double>(size_of(c.a)) + m * n * static_cast<double>(size_of(c.d));
  const double memory = bytes / (rates.bandwidth(rates.workers) * rates.workers);
  const auto* row = std::find_if(std::begin(table), std::end(table),
                                 [&](const Slowdown& s) { return representative_m(c) <= s.m; });
  const double fork = rates.workers > 1 ? kForkSeconds : 0;
  return call + fork + row->times * CpuRates::overlap(m * n * k / peak, memory);
}
double openblas_seconds(const CandidateContext& context, int32_t threads) {
  return cpu_seconds(context, threads, kOpenBlas, kOpenBlasCall);
}
double onednn_seconds(const CandidateContext& context, int32_t threads) {
  return cpu_seconds(context, threads, kOneDnn, kOneDnnCall);
}

// Estimates, not fitted to measurements. Shares of the peak on large products: NVIDIA and AMD report 70 to 80
// and 60 to 70 per cent. Small products waste part of their 128 x 128 tiles, and every call has a fixed cost.
constexpr double kCublasLtOfPeak = 0.75, kHipblasLtOfPeak = 0.65, kLtOfMemory = 0.8, kLtCall = 2e-6;

double lt_seconds(const CandidateContext& context, int32_t) {
  const ProblemClass& c = context.problem;
  const GpuRates rates(context.facts);
  const bool rocm = context.facts.target.backend == Backend::kRocm;
  const auto m = static_cast<double>(representative_m(c)), n = static_cast<double>(c.n),
             k = static_cast<double>(c.k);
  const double matrix = context.facts.fact_or("flops_matrix_f16", rates.flops);
  const double rate = c.a == DType::kI8       ? 2 * matrix
                      : c.a != DType::kF32    ? matrix
                      : c.math == Math::kTf32 ? matrix / 2
                                              : rates.flops;
  constexpr double kTile = 128;
  const double tiles = std::ceil(m / kTile) * std::ceil(n / kTile);
  const double splits = std::max(1.0, std::min(std::floor(rates.units / tiles), std::floor(k / 1024)));
  const double waves = std::ceil(tiles * splits / rates.units);
  const double compute = waves * rates.units * kTile * kTile * 2 * (k / splits) /
                         (rate * (rocm ? kHipblasLtOfPeak : kCublasLtOfPeak));
  const double bytes =
      (m * k + k * n) * static_cast<double>(size_of(c.a)) + m * n * static_cast<double>(size_of(c.d));
  const double memory = kMemorySeconds + bytes / (rates.memory_bytes_per_second * kLtOfMemory);
  return kLtCall + rates.launch_seconds + std::max(compute, memory);
}

// A product with K = 0 runs as K = 1, with one zero that all rows of A and B share. Libraries do not accept
// rows that overlap.
std::string lt_refusal(const CandidateContext& context) {
  const ProblemClass& c = context.problem;
  if (c.alignment == Alignment::kByte) return "needs operands aligned to their element size";
  if (c.k == 1) return "needs K > 1: K = 0 runs as K = 1 with rows that overlap";
  return "";
}
// cuBLASLt's "regular" int8 kernels need K-contiguous operands and sizes that are multiples of 4 (its table
// of supported types).
std::string lt_bytes_refusal(const CandidateContext& context) {
  const ProblemClass& c = context.problem;
  if (c.trans_a || !c.trans_b) return "needs K contiguous in A and B for i8";
  if (c.n % 4 != 0 || c.k % 4 != 0 || c.alignment != Alignment::k16)
    return "needs N and K to be multiples of 4 and rows aligned to 16 bytes for i8";
  if (c.k > 131071)
    return absl::StrCat("k ", c.k, " > 131071: i32 sums may overflow, with an undocumented result");
  return lt_refusal(context);
}

std::string none(const CandidateContext&) { return ""; }

// Without VNNI, oneDNN adds two products of bytes in 16 bits, which may saturate. With VNNI its i32 sums
// saturate where Lathe's wrap.
std::string bytes_refusal(const CandidateContext& context) {
  if (!context.facts.target.has("avx512vnni")) return "needs AVX512-VNNI: without it i8 sums may saturate";
  if (context.problem.k > 131071)
    return absl::StrCat("k ", context.problem.k, " > 131071: i32 sums may saturate");
  return "";
}
// oneDNN multiplies bf16 pairs where the processor has the instruction and emulates it elsewhere.
std::string bf16_refusal(const CandidateContext& context) {
  if (!context.facts.target.has("avx512bf16"))
    return "needs AVX512-BF16: without it bf16 products are emulated";
  return "";
}

ExternalRow of(ExternalRow row, DType a, std::vector<DType> d) {
  row.a = a;
  row.d = std::move(d);
  return row;
}
// int8 products to i32, without an epilogue.
ExternalRow of_bytes(ExternalRow row, std::string (*refusal)(const CandidateContext&)) {
  row = of(std::move(row), DType::kI8, {DType::kI32});
  row.adds_c = false;
  row.bias.clear();
  row.refusal = refusal;
  row.numbers = "i8 to i32, exact";
  return row;
}

std::vector<ExternalRow> make_rows() {
  constexpr DType kF32 = DType::kF32, kBF16 = DType::kBF16;
  static constexpr char kFma[] = "fma f32; the library chooses the order and splits of K";
  static constexpr char kLt[] = "sums in f32; the library chooses the order and splits of K";
  // Field order: library, backend, op, routine, dtype of A and B, dtypes of D, C, bias, residual.
  const ExternalRow openblas = {
      ExternalId::kOpenBlas, Backend::kCpu, Op::kMatmul, "cblas_sgemm", kF32, {kF32}, true, {}, false, none,
      openblas_seconds,      kFma};
  ExternalRow onednn = openblas;
  onednn.id = ExternalId::kOneDnn;
  onednn.routine = "matmul";
  onednn.bias = {kF32, kBF16};
  onednn.seconds = onednn_seconds;
  const ExternalRow cublaslt = {
      ExternalId::kCublasLt, Backend::kCuda, Op::kMatmul, "cublasLtMatmul", kF32, {kF32}, true,
      {DType::kNone},        false,          lt_refusal,  lt_seconds,       kLt};
  ExternalRow hipblaslt = cublaslt;
  hipblaslt.id = ExternalId::kHipblasLt;
  hipblaslt.backend = Backend::kRocm;
  hipblaslt.routine = "hipblasLtMatmul";
  ExternalRow onednn_bf16 = of(onednn, kBF16, {kF32, kBF16});
  onednn_bf16.refusal = bf16_refusal;
  onednn_bf16.numbers = "bf16 pairs to f32; the library chooses the order and splits of K";
  std::vector<ExternalRow> rows = {openblas, onednn, onednn_bf16, of_bytes(onednn, bytes_refusal)};
  for (const ExternalRow& lt : {cublaslt, hipblaslt}) {
    rows.push_back(lt);
    for (DType half : {DType::kF16, kBF16}) rows.push_back(of(lt, half, {half, kF32}));
  }
  rows.push_back(of_bytes(cublaslt, lt_bytes_refusal));
  return rows;
}

}  // namespace

const std::vector<ExternalRow>& matmul_externals() {
  static const std::vector<ExternalRow> rows = make_rows();
  return rows;
}

}  // namespace lathe
