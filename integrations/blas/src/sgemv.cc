// sgemv, in its Fortran and CBLAS forms.
#include <algorithm>
#include <memory>
#include <new>

#include "blas.h"
#include "gemm.h"
#include "next_blas.h"
#include "product.h"
#include "settings.h"
#include "xerbla.h"

namespace lathe_blas {
namespace {

NextFunction<decltype(sgemv_)> next_sgemv("sgemv_");
NextFunction<decltype(cblas_sgemv)> next_cblas_sgemv("cblas_sgemv");

// The Fortran form: A is stored column by column.
struct Gemv {
  int trans;
  int32_t m, n;
  float alpha;
  const float* a;
  int32_t lda;
  const float* x;
  int32_t incx;
  float beta;
  float* y;
  int32_t incy;
};

// A row-major matrix is the transpose of the column-major one in the same memory.
Gemv as_fortran(const Gemv& row_major) {
  Gemv g = row_major;
  g.trans = g.trans < 0 ? -1 : 1 - g.trans;
  std::swap(g.m, g.n);
  return g;
}

int illegal_parameter(const Gemv& g) {
  if (g.trans < 0) return 1;
  if (g.m < 0) return 2;
  if (g.n < 0) return 3;
  if (g.lda < std::max(1, g.m)) return 6;
  if (g.incx == 0) return 8;
  if (g.incy == 0) return 11;
  return 0;
}

int illegal_cblas_parameter(int order, const Gemv& as_called) {
  if (order != kCblasRowMajor && order != kCblasColMajor) return 1;
  const int fortran = illegal_parameter(order == kCblasRowMajor ? as_fortran(as_called) : as_called);
  if (fortran == 0) return 0;
  if (order == kCblasRowMajor && (fortran == 2 || fortran == 3)) return 5 - fortran + 1;
  return fortran + 1;
}

// Element 0 of a vector. With a negative increment it is the last one in memory.
template <typename T>
T* first_of(T* vector, int64_t length, int64_t increment) {
  return increment < 0 ? vector - (length - 1) * increment : vector;
}

void scale(float beta, float* y, int64_t length, int64_t increment) {
  for (int64_t i = 0; i < length; ++i) y[i * increment] = beta == 0 ? 0.0f : beta * y[i * increment];
}

// Lathe reads and writes contiguous vectors. Copying them costs little beside reading A.
class Contiguous {
 public:
  Contiguous(const float* vector, int64_t length, int64_t increment) {
    if (increment == 1) {
      data_ = vector;
      return;
    }
    copy_.reset(new (std::nothrow) float[length]);
    for (int64_t i = 0; copy_ != nullptr && i < length; ++i) copy_[i] = vector[i * increment];
    data_ = copy_.get();
  }
  const float* data() const { return data_; }  // null: no memory

 private:
  std::unique_ptr<float[]> copy_;
  const float* data_ = nullptr;
};

// The vector is a matrix with one row, so A is operand B: its element (i, j) multiplies x[j] (x[i] if transposed).
bool run_on_lathe(const Gemv& g, int64_t length_x, int64_t length_y, Alternative alternative) {
  float* const y = first_of(g.y, length_y, g.incy);
  const Contiguous x(first_of(g.x, length_x, g.incx), length_x, g.incx);
  const Contiguous result(y, length_y, g.incy);
  if (x.data() == nullptr || result.data() == nullptr) return false;
  Product p;
  p.m = 1;
  p.n = length_y;
  p.k = length_x;
  p.dtype = LATHE_F32;
  p.a = {x.data(), length_x, false};
  p.b = {g.a, g.lda, g.trans == 1};
  p.d = const_cast<float*>(result.data());
  p.ldd = length_y;
  p.alpha = g.alpha;
  p.beta = g.beta;
  if (!run_product(p, alternative)) return false;
  for (int64_t i = 0; result.data() != y && i < length_y; ++i) y[i * g.incy] = result.data()[i];
  return true;
}

// Lathe is faster only where A comes from memory and each element of y is a sum along a line of A (docs/blas.md).
bool next_is_faster(const Gemv& g) {
  constexpr int64_t kCached = (32 << 20) / sizeof(float);
  return settings().small > 0 && (g.trans == 0 || int64_t{g.m} * g.n <= kCached);
}

// Runs a legal call.
void run(const Gemv& g) {
  const int64_t length_x = g.trans ? g.m : g.n, length_y = g.trans ? g.n : g.m;
  if (g.m == 0 || g.n == 0 || (g.alpha == 0 && g.beta == 1)) return;
  if (g.alpha == 0) return scale(g.beta, first_of(g.y, length_y, g.incy), length_y, g.incy);
  const bool has_next = next_sgemv.get() != nullptr;
  if (has_next && next_is_faster(g))
    count(Outcome::kSmall);
  else if (run_on_lathe(g, length_x, length_y, has_next ? Alternative::kNext : Alternative::kNone))
    return;
  next_sgemv.require()(g.trans ? "T" : "N", &g.m, &g.n, &g.alpha, g.a, &g.lda, g.x, &g.incx, &g.beta, g.y,
                       &g.incy, 1);
}

}  // namespace
}  // namespace lathe_blas

using namespace lathe_blas;

void sgemv_(const char* trans, const int32_t* m, const int32_t* n, const float* alpha, const float* a,
            const int32_t* lda, const float* x, const int32_t* incx, const float* beta, float* y,
            const int32_t* incy, size_t) {
  const Gemv g = {transposition_of(*trans), *m, *n, *alpha, a, *lda, x, *incx, *beta, y, *incy};
  const int illegal = illegal_parameter(g);
  if (illegal == 0) return run(g);
  auto* const next = next_sgemv.get();
  if (next == nullptr) return report_illegal("SGEMV ", illegal);
  next(trans, m, n, alpha, a, lda, x, incx, beta, y, incy, 1);
}

void cblas_sgemv(int order, int trans, int32_t m, int32_t n, float alpha, const float* a, int32_t lda,
                 const float* x, int32_t incx, float beta, float* y, int32_t incy) {
  const Gemv g = {transposition_of(trans), m, n, alpha, a, lda, x, incx, beta, y, incy};
  const int illegal = illegal_cblas_parameter(order, g);
  if (illegal == 0) return run(order == kCblasRowMajor ? as_fortran(g) : g);
  auto* const next = next_cblas_sgemv.get();
  if (next == nullptr) return report_illegal_cblas("cblas_sgemv", illegal);
  next(order, trans, m, n, alpha, a, lda, x, incx, beta, y, incy);
}
