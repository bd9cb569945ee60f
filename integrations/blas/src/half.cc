// sbgemm (A and B of bf16) and shgemm (f16), in their Fortran and CBLAS forms. C is f32.
#include <cstring>
#include <memory>
#include <new>

#include "blas.h"
#include "gemm.h"
#include "next_blas.h"
#include "report.h"
#include "xerbla.h"

namespace lathe_blas {
namespace {

float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

float from_bf16(uint16_t h) { return float_of_bits(uint32_t{h} << 16); }

float from_f16(uint16_t h) {
  const uint32_t sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
  if (exponent == 31) return float_of_bits(sign | 0x7f800000u | mantissa << 13);
  if (exponent != 0) return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
  const float subnormal = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -subnormal : subnormal;
}

using Floats = std::unique_ptr<float[]>;

Floats as_floats(const void* matrix, int32_t rows, int32_t columns, int32_t ld, lathe_dtype dtype) {
  Floats out(new (std::nothrow) float[static_cast<size_t>(rows) * columns]);
  const auto* in = static_cast<const uint16_t*>(matrix);
  for (int64_t j = 0; out != nullptr && j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i)
      out[j * rows + i] = (dtype == LATHE_BF16 ? from_bf16 : from_f16)(in[j * ld + i]);
  return out;
}

// Without Lathe: sgemm of the converted matrices.
void run_converted(const Gemm& g) {
  const int32_t rows_a = g.transa ? g.k : g.m, rows_b = g.transb ? g.n : g.k;
  const Floats a = as_floats(g.a, rows_a, g.transa ? g.m : g.k, g.lda, g.dtype);
  const Floats b = as_floats(g.b, rows_b, g.transb ? g.k : g.n, g.ldb, g.dtype);
  if (a == nullptr || b == nullptr)
    return report("no memory to convert a product's operands; C is unchanged");
  Gemm converted = g;
  converted.dtype = LATHE_F32;
  converted.a = a.get();
  converted.lda = rows_a;
  converted.b = b.get();
  converted.ldb = rows_b;
  run_sgemm(converted);
}

void run_legal(const Gemm& g) {
  if (!run_without_product(g) && !run_on_lathe(g, Alternative::kNone)) run_converted(g);
}

void run_fortran(const char* routine, const Gemm& g) {
  if (const int illegal = illegal_parameter(g)) return report_illegal(routine, illegal);
  run_legal(g);
}

void run_cblas(const char* routine, int order, const Gemm& g) {
  if (const int illegal = illegal_cblas_parameter(order, g)) return report_illegal_cblas(routine, illegal);
  run_legal(order == kCblasRowMajor ? swapped(g) : g);
}

}  // namespace
}  // namespace lathe_blas

using namespace lathe_blas;

void sbgemm_(const char* transa, const char* transb, const int32_t* m, const int32_t* n, const int32_t* k,
             const float* alpha, const uint16_t* a, const int32_t* lda, const uint16_t* b, const int32_t* ldb,
             const float* beta, float* c, const int32_t* ldc, size_t, size_t) {
  run_fortran("SBGEMM ", {LATHE_BF16, transposition_of(*transa), transposition_of(*transb), *m, *n, *k,
                          *alpha, a, *lda, b, *ldb, *beta, c, *ldc});
}

void cblas_sbgemm(int order, int transa, int transb, int32_t m, int32_t n, int32_t k, float alpha,
                  const uint16_t* a, int32_t lda, const uint16_t* b, int32_t ldb, float beta, float* c,
                  int32_t ldc) {
  run_cblas("cblas_sbgemm", order,
            {LATHE_BF16, transposition_of(transa), transposition_of(transb), m, n, k, alpha, a, lda, b, ldb,
             beta, c, ldc});
}

void shgemm_(const char* transa, const char* transb, const int32_t* m, const int32_t* n, const int32_t* k,
             const float* alpha, const uint16_t* a, const int32_t* lda, const uint16_t* b, const int32_t* ldb,
             const float* beta, float* c, const int32_t* ldc, size_t, size_t) {
  run_fortran("SHGEMM ", {LATHE_F16, transposition_of(*transa), transposition_of(*transb), *m, *n, *k, *alpha,
                          a, *lda, b, *ldb, *beta, c, *ldc});
}

void cblas_shgemm(int order, int transa, int transb, int32_t m, int32_t n, int32_t k, float alpha,
                  const uint16_t* a, int32_t lda, const uint16_t* b, int32_t ldb, float beta, float* c,
                  int32_t ldc) {
  run_cblas("cblas_shgemm", order,
            {LATHE_F16, transposition_of(transa), transposition_of(transb), m, n, k, alpha, a, lda, b, ldb,
             beta, c, ldc});
}
