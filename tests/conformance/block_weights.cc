#include "block_weights.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "device.h"
#include "matmul_case.h"

namespace lathe::conformance {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A block of a row of A as ggml's CPU backend rounds it on x86 (quantize_row_q8_0, q8_1 and q8_K in its quants.c): bytes,
// their scale, and what a minimum of the whole block is multiplied by.
struct RoundedBlock {
  std::vector<int> bytes;
  double scale = 0, sum = 0;
};
RoundedBlock round_block(const double* a, const reference::BlockFormat& f) {
  RoundedBlock r;
  float most = 0;
  for (int64_t i = 0; i < f.elements; ++i) most = std::max(most, std::fabs(static_cast<float>(a[i])));
  const float inverse = most == 0 ? 0 : 127.0f / most;
  int total = 0;
  for (int64_t i = 0; i < f.elements; ++i) {
    const float quotient = static_cast<float>(a[i]) * inverse;
    r.bytes.push_back(static_cast<int>(std::nearbyint(quotient)));
    total += r.bytes.back();
  }
  const float scale = f.halves_a_scale ? most / 127.0f : most == 0 ? 0 : 1.0f / inverse;
  r.scale = f.halves_a_scale ? round_to(LATHE_F16, scale) : scale;
  r.sum = f.halves_a_scale ? round_to(LATHE_F16, scale * static_cast<float>(total)) : r.scale * total;
  return r;
}

}  // namespace

bool is_on_gpus(lathe_dtype format) {
  constexpr lathe_dtype kOnGpus[] = {LATHE_Q4_0, LATHE_Q8_0, LATHE_Q4_1, LATHE_Q4_K, LATHE_Q6_K, LATHE_MXFP4};
  return std::find(std::begin(kOnGpus), std::end(kOnGpus), format) != std::end(kOnGpus);
}

std::string why_not_run(lathe_dtype format, lathe_math math) {
  if (is_cpu()) return "";
  if (!is_on_gpus(format)) return "only the CPU has kernels for this block format";
  if (math == LATHE_MATH_INT8 && format != LATHE_Q8_0)
    return "GPUs do not round A to bytes; q8_0 stands for all";
  return "";
}

// Block formats are those of src/reference, which shares no code with the library.
void draw_blocks(const BlockMatrix& matrix, Values values, Random* random, BlockTerms* terms) {
  const reference::BlockFormat& f = matrix.format;
  const auto first = terms->values.size(), count = static_cast<size_t>(matrix.k * matrix.n);
  for (std::vector<double>* all : {&terms->values, &terms->products, &terms->minima})
    all->resize(first + count);
  const bool whole = values == Values::kSmallIntegers;
  const double special[] = {kNan, kInfinity, -kInfinity, 0.0, -0.0};
  for (int64_t j = 0; j < matrix.n; ++j) {
    for (int64_t k = 0; k < matrix.k; k += f.elements) {
      uint8_t* block = matrix.at(k, j);
      double scale = whole ? random->between(1, 2) * 0.5 : round_to(LATHE_F16, random->normal() / 8);
      if (values == Values::kSpecial && random->below(50) == 0)
        scale = round_to(LATHE_F16, special[random->below(5)]);
      f.store_scales(block, scale, random->next(), whole);
      for (int64_t i = 0; i < f.elements; ++i) {
        f.store(block, i, random->below(f.codes));
        const size_t at = first + static_cast<size_t>((k + i) * matrix.n + j);
        const reference::BlockParts parts = f.split(block, i);
        terms->values[at] = f.load(block, i);
        terms->products[at] = parts.product;
        terms->minima[at] = parts.minimum;
      }
    }
  }
}

void multiply_rounded(const BlockProduct& p, std::vector<double>* sums, std::vector<double>* magnitudes) {
  const reference::BlockFormat& f = p.format;
  std::fill(sums->begin(), sums->end(), 0.0);
  std::fill(magnitudes->begin(), magnitudes->end(), 0.0);
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t k0 = 0; k0 < p.k; k0 += f.elements) {
      const RoundedBlock block = round_block(p.a + i * p.k + k0, f);
      double* sum = sums->data() + i * p.n;
      double* magnitude = magnitudes->data() + i * p.n;
      for (int64_t e = 0; e < f.elements; ++e) {
        const double x = block.scale * block.bytes[static_cast<size_t>(e)];
        // A block of 32 has one minimum, which multiplies the rounded sum.
        const double of_minimum = !f.halves_a_scale ? x : e == 0 ? block.sum : 0;
        const double* products = p.products + (k0 + e) * p.n;
        const double* minima = p.minima + (k0 + e) * p.n;
        for (int64_t j = 0; j < p.n; ++j) {
          sum[j] += x * products[j] + of_minimum * minima[j];
          magnitude[j] += std::fabs(x * products[j]) + std::fabs(of_minimum * minima[j]);
        }
      }
    }
  }
}

std::vector<double> error_of_rounding(const BlockProduct& p) {
  const reference::BlockFormat& f = p.format;
  std::vector<double> error(static_cast<size_t>(p.m * p.n));
  // f16 scales, and the sums by which minima are multiplied, are off by 2^-11, or by half of the smallest subnormal.
  const double u = kUnitRoundoff, of_halves = f.halves_a_scale ? 0x1p-10 : 0,
               least = of_halves ? 127 * 0x1p-24 : 0;
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t k0 = 0; k0 < p.k; k0 += f.elements) {
      const double* a = p.a + i * p.k + k0;
      double most = 0;
      for (int64_t e = 0; e < f.elements; ++e) most = std::max(most, std::fabs(a[e]));
      const double half = most * (0.5 / 127 + of_halves + 8 * u) + least;
      for (int64_t e = k0; e < k0 + f.elements; ++e) {
        const double* products = p.products + e * p.n;
        const double* minima = p.minima + e * p.n;
        for (int64_t j = 0; j < p.n; ++j)
          error[static_cast<size_t>(i * p.n + j)] += half * (std::fabs(products[j]) + std::fabs(minima[j]));
      }
    }
  }
  return error;
}

}  // namespace lathe::conformance
