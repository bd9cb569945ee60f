// sgemm and sgemm_batch_strided, in their Fortran and CBLAS forms.
#include "blas.h"
#include "gemm.h"
#include "next_blas.h"
#include "xerbla.h"

namespace lathe_blas {
namespace {

// The next BLAS reports illegal arguments, so that a program sees the same with and without this library.
NextFunction<decltype(sgemm_)> next_sgemm("sgemm_");
NextFunction<decltype(cblas_sgemm)> next_cblas_sgemm("cblas_sgemm");

void run_one_by_one(Gemm g) {
  const int32_t batch = g.batch;
  g.batch = 1;
  for (int32_t i = 0; i < batch; ++i) {
    run_sgemm(g);
    g.a = static_cast<const float*>(g.a) + g.a_stride;
    g.b = static_cast<const float*>(g.b) + g.b_stride;
    g.c += g.c_stride;
  }
}

// Lathe refuses negative strides and matrices of C that overlap. These run one after the other.
void run_batch(const Gemm& g) {
  if (!run_without_product(g) && !run_on_lathe(g, Alternative::kNext)) run_one_by_one(g);
}

}  // namespace
}  // namespace lathe_blas

using namespace lathe_blas;

void sgemm_(const char* transa, const char* transb, const int32_t* m, const int32_t* n, const int32_t* k,
            const float* alpha, const float* a, const int32_t* lda, const float* b, const int32_t* ldb,
            const float* beta, float* c, const int32_t* ldc, size_t, size_t) {
  const Gemm g = {LATHE_F32,
                  transposition_of(*transa),
                  transposition_of(*transb),
                  *m,
                  *n,
                  *k,
                  *alpha,
                  a,
                  *lda,
                  b,
                  *ldb,
                  *beta,
                  c,
                  *ldc};
  const int illegal = illegal_parameter(g);
  if (illegal == 0) return run_sgemm(g);
  auto* const next = next_sgemm.get();
  if (next == nullptr) return report_illegal("SGEMM ", illegal);
  next(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, 1, 1);
}

void cblas_sgemm(int order, int transa, int transb, int32_t m, int32_t n, int32_t k, float alpha,
                 const float* a, int32_t lda, const float* b, int32_t ldb, float beta, float* c,
                 int32_t ldc) {
  const Gemm g = {
      LATHE_F32, transposition_of(transa), transposition_of(transb), m, n, k, alpha, a, lda, b, ldb, beta, c,
      ldc};
  const int illegal = illegal_cblas_parameter(order, g);
  if (illegal == 0) return run_sgemm(order == kCblasRowMajor ? swapped(g) : g);
  auto* const next = next_cblas_sgemm.get();
  if (next == nullptr) return report_illegal_cblas("cblas_sgemm", illegal);
  next(order, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void sgemm_batch_strided_(const char* transa, const char* transb, const int32_t* m, const int32_t* n,
                          const int32_t* k, const float* alpha, const float* a, const int32_t* lda,
                          const int32_t* stridea, const float* b, const int32_t* ldb, const int32_t* strideb,
                          const float* beta, float* c, const int32_t* ldc, const int32_t* stridec,
                          const int32_t* batch, size_t, size_t) {
  const Gemm g = {LATHE_F32,
                  transposition_of(*transa),
                  transposition_of(*transb),
                  *m,
                  *n,
                  *k,
                  *alpha,
                  a,
                  *lda,
                  b,
                  *ldb,
                  *beta,
                  c,
                  *ldc,
                  *batch,
                  *stridea,
                  *strideb,
                  *stridec};
  // Positions in this routine's argument list, which has the three strides and the batch too.
  const int illegal = illegal_parameter(g);
  const int position = illegal == 0 && *batch < 0 ? 17 : illegal + (illegal == 10) + 2 * (illegal == 13);
  if (position != 0) return report_illegal("SGEMM_BATCH_STRIDED ", position);
  run_batch(g);
}

void cblas_sgemm_batch_strided(int order, int transa, int transb, int32_t m, int32_t n, int32_t k,
                               float alpha, const float* a, int32_t lda, int32_t stridea, const float* b,
                               int32_t ldb, int32_t strideb, float beta, float* c, int32_t ldc,
                               int32_t stridec, int32_t batch) {
  const Gemm g = {LATHE_F32,
                  transposition_of(transa),
                  transposition_of(transb),
                  m,
                  n,
                  k,
                  alpha,
                  a,
                  lda,
                  b,
                  ldb,
                  beta,
                  c,
                  ldc,
                  batch,
                  stridea,
                  strideb,
                  stridec};
  const int illegal = illegal_cblas_parameter(order, g);
  const int position = illegal == 0 && batch < 0 ? 18 : illegal + (illegal == 11) + 2 * (illegal == 14);
  if (position != 0) return report_illegal_cblas("cblas_sgemm_batch_strided", position);
  run_batch(order == kCblasRowMajor ? swapped(g) : g);
}
