#include "gemm.h"

#include <algorithm>
#include <utility>

#include "blas.h"
#include "next_blas.h"
#include "settings.h"

namespace lathe_blas {
namespace {

NextFunction<decltype(sgemm_)> next_sgemm("sgemm_");

void scale(const Gemm& g, float* c) {
  for (int64_t j = 0; j < g.n; ++j) {
    float* const column = c + j * g.ldc;
    if (g.beta == 0)
      std::fill_n(column, g.m, 0.0f);  // C may hold NaN
    else
      for (int64_t i = 0; i < g.m; ++i) column[i] *= g.beta;
  }
}

}  // namespace

int transposition_of(char letter) {
  switch (letter) {
    case 'N':
    case 'n': return 0;
    case 'T':
    case 't':
    case 'C':
    case 'c': return 1;
    default: return -1;
  }
}

int transposition_of(int cblas) {
  if (cblas == kCblasNoTrans) return 0;
  return cblas == kCblasTrans || cblas == kCblasConjTrans ? 1 : -1;
}

Gemm swapped(const Gemm& gemm) {
  Gemm s = gemm;
  std::swap(s.transa, s.transb);
  std::swap(s.m, s.n);
  std::swap(s.a, s.b);
  std::swap(s.lda, s.ldb);
  std::swap(s.a_stride, s.b_stride);
  return s;
}

int illegal_parameter(const Gemm& g) {
  if (g.transa < 0) return 1;
  if (g.transb < 0) return 2;
  if (g.m < 0) return 3;
  if (g.n < 0) return 4;
  if (g.k < 0) return 5;
  if (g.lda < std::max(1, g.transa ? g.k : g.m)) return 8;
  if (g.ldb < std::max(1, g.transb ? g.n : g.k)) return 10;
  if (g.ldc < std::max(1, g.m)) return 13;
  return 0;
}

int illegal_cblas_parameter(int order, const Gemm& as_called) {
  if (order != kCblasRowMajor && order != kCblasColMajor) return 1;
  const bool is_row_major = order == kCblasRowMajor;
  const int fortran = illegal_parameter(is_row_major ? swapped(as_called) : as_called);
  if (fortran == 0) return 0;
  if (is_row_major) {
    constexpr std::pair<int, int> kSwapped[] = {{1, 2}, {3, 4}, {8, 10}};
    for (const auto& [one, other] : kSwapped) {
      if (fortran == one) return other + 1;
      if (fortran == other) return one + 1;
    }
  }
  return fortran + 1;
}

void run_sgemm(const Gemm& g) {
  if (run_without_product(g)) return;
  const bool has_next = next_sgemm.get() != nullptr;
  if (has_next && int64_t{g.m} * g.n * g.k <= settings().small)
    count(Outcome::kSmall);
  else if (run_on_lathe(g, has_next ? Alternative::kNext : Alternative::kNone))
    return;
  const char* const letters = "NT";
  next_sgemm.require()(letters + g.transa, letters + g.transb, &g.m, &g.n, &g.k, &g.alpha,
                       static_cast<const float*>(g.a), &g.lda, static_cast<const float*>(g.b), &g.ldb,
                       &g.beta, g.c, &g.ldc, 1, 1);
}

bool run_without_product(const Gemm& g) {
  if (g.m == 0 || g.n == 0 || g.batch == 0) return true;
  if (g.alpha != 0 && g.k != 0) return false;
  if (g.beta == 1) return true;
  for (int64_t i = 0; i < g.batch; ++i) scale(g, g.c + i * g.c_stride);
  return true;
}

// Read row by row, the matrices of the Fortran form are transposed, so D' = op(B)' op(A)' is what Lathe computes.
bool run_on_lathe(const Gemm& g, Alternative alternative) {
  Product p;
  p.m = g.n;
  p.n = g.m;
  p.k = g.k;
  p.dtype = g.dtype;
  p.a = {g.b, g.ldb, g.transb == 1};
  p.b = {g.a, g.lda, g.transa == 1};
  p.d = g.c;
  p.ldd = g.ldc;
  p.alpha = g.alpha;
  p.beta = g.beta;
  p.batch = g.batch;
  p.a_stride = g.b_stride;
  p.b_stride = g.a_stride;
  p.d_stride = g.c_stride;
  return run_product(p, alternative);
}

}  // namespace lathe_blas
