// Random products, matrix times vector products and batches, compared with sums in double; what the tests share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "../src/blas.h"

namespace blas_test {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
enum class Form { kFortran, kColumns, kRows };

// What CMakeLists.txt has set up for this run.
inline bool without_lathe() { return getenv("BLAS_TEST_WITHOUT_LATHE") != nullptr; }
inline bool has_next() { return std::string(getenv("LATHE_BLAS_NEXT")) != "none"; }

inline float from_bf16(uint16_t h) {
  const uint32_t bits = uint32_t{h} << 16;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}
inline uint16_t to_bf16(float value) {  // truncates: the test needs numbers of bf16, not the nearest ones
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>(bits >> 16);
}
// Numbers j / 64 with |j| <= 64 are exact in f16.
inline uint16_t to_f16(float value) {
  if (value == 0) return 0;
  int exponent;
  const float mantissa = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
  const auto bits =
      static_cast<uint16_t>(((exponent + 14) << 10) | static_cast<int>((mantissa * 2 - 1) * 1024));
  return static_cast<uint16_t>(bits | (value < 0 ? 0x8000 : 0));
}

// A stored matrix whose lines are `ld` elements apart. The elements between the lines are NaN.
struct Stored {
  int64_t lines, length, ld;
  std::vector<float> data;
  Stored(int64_t lines, int64_t length, int64_t padding, std::mt19937& random)
      : lines(lines), length(length), ld(std::max<int64_t>(1, length + padding)), data(lines * ld + 1, kNaN) {
    std::uniform_int_distribution<int> number(-64, 64);
    for (int64_t i = 0; i < lines; ++i)
      for (int64_t j = 0; j < length; ++j) data[i * ld + j] = static_cast<float>(number(random)) / 64;
  }
  float at(int64_t line, int64_t i) const { return data[line * ld + i]; }
};

struct Case {
  int32_t m, n, k;
  char transa = 'N', transb = 'N';
  float alpha = 1, beta = 0;
  int32_t padding = 3;
};

class Product {
 public:
  Product(const Case& c, Form form, unsigned seed)
      : case_(c),
        form_(form),
        random_(seed),
        a_(stored(c.transa, c.m, c.k)),
        b_(stored(c.transb, c.k, c.n)),
        c_(stored('N', c.m, c.n)),
        before_(c_) {
    if (c.beta == 0)
      for (float& x : c_.data) x = kNaN;
  }

  void run_sgemm() {
    const Case& c = case_;
    const auto lda = static_cast<int32_t>(a_.ld), ldb = static_cast<int32_t>(b_.ld),
               ldc = static_cast<int32_t>(c_.ld);
    if (form_ == Form::kFortran)
      sgemm_(&c.transa, &c.transb, &c.m, &c.n, &c.k, &c.alpha, a_.data.data(), &lda, b_.data.data(), &ldb,
             &c.beta, c_.data.data(), &ldc, 1, 1);
    else
      cblas_sgemm(order(), cblas(c.transa), cblas(c.transb), c.m, c.n, c.k, c.alpha, a_.data.data(), lda,
                  b_.data.data(), ldb, c.beta, c_.data.data(), ldc);
  }

  template <typename Fortran, typename Cblas>
  void run_half(uint16_t (*convert)(float), const Fortran& fortran, const Cblas& in_c) {
    const Case& c = case_;
    const auto lda = static_cast<int32_t>(a_.ld), ldb = static_cast<int32_t>(b_.ld),
               ldc = static_cast<int32_t>(c_.ld);
    const auto halves = [&](const Stored& s) {
      std::vector<uint16_t> out(s.data.size(), 0x7fff);  // NaN in both formats
      for (size_t i = 0; i < out.size(); ++i)
        if (!std::isnan(s.data[i])) out[i] = convert(s.data[i]);
      return out;
    };
    const std::vector<uint16_t> a = halves(a_), b = halves(b_);
    if (form_ == Form::kFortran)
      fortran(&c.transa, &c.transb, &c.m, &c.n, &c.k, &c.alpha, a.data(), &lda, b.data(), &ldb, &c.beta,
              c_.data.data(), &ldc, 1, 1);
    else
      in_c(order(), cblas(c.transa), cblas(c.transb), c.m, c.n, c.k, c.alpha, a.data(), lda, b.data(), ldb,
           c.beta, c_.data.data(), ldc);
  }

  // Compares with sums in double. A sum of K products in f32 has an error of at most K * 2^-24 times the sum of their
  // magnitudes. Elements between the lines of C must be as before.
  void check() const {
    const Case& c = case_;
    int wrong = 0;
    for (int64_t line = 0; line < c_.lines; ++line)
      for (int64_t p = 0; p < c_.ld; ++p) {
        const float got = c_.at(line, p);
        if (p >= c_.length) {
          wrong += !std::isnan(got);
          continue;
        }
        const int64_t i = form_ == Form::kRows ? line : p, j = form_ == Form::kRows ? p : line;
        double sum = 0, magnitude = 0;
        for (int64_t l = 0; l < c.k && c.alpha != 0; ++l) {
          const double product = static_cast<double>(of(a_, c.transa, i, l)) * of(b_, c.transb, l, j);
          sum += product;
          magnitude += std::fabs(product);
        }
        const double old = c.beta == 0 ? 0 : static_cast<double>(c.beta) * before_.at(line, p);
        const double expected = c.alpha * sum + old;
        const double bound = (c.k + 4) * 0x1p-24 * (std::fabs(c.alpha) * magnitude + std::fabs(old)) + 1e-30;
        if (!(std::fabs(got - expected) <= bound) && ++wrong < 4)
          ADD_FAILURE() << "C(" << i << ", " << j << ") is " << got << ", not " << expected;
      }
    EXPECT_EQ(wrong, 0) << "m=" << c.m << " n=" << c.n << " k=" << c.k << " " << c.transa << c.transb
                        << " alpha=" << c.alpha << " beta=" << c.beta << " form=" << static_cast<int>(form_);
  }

 private:
  static bool is_trans(char letter) { return letter != 'N' && letter != 'n'; }
  static int cblas(char letter) {
    return !is_trans(letter) ? kCblasNoTrans : letter == 'T' || letter == 't' ? kCblasTrans : kCblasConjTrans;
  }
  int order() const { return form_ == Form::kRows ? kCblasRowMajor : kCblasColMajor; }
  // The matrix op(X) of rows x columns.
  Stored stored(char letter, int64_t rows, int64_t columns) {
    if (is_trans(letter) != (form_ == Form::kRows)) return {rows, columns, case_.padding, random_};
    return {columns, rows, case_.padding, random_};
  }
  float of(const Stored& s, char letter, int64_t row, int64_t column) const {
    return is_trans(letter) != (form_ == Form::kRows) ? s.at(row, column) : s.at(column, row);
  }

  Case case_;
  Form form_;
  std::mt19937 random_;
  Stored a_, b_, c_;
  Stored before_;
};

inline void check_sgemm(const Case& c, Form form, unsigned seed = 1) {
  Product product(c, form, seed);
  product.run_sgemm();
  product.check();
}

inline constexpr Form kForms[] = {Form::kFortran, Form::kColumns, Form::kRows};

inline void check_sgemv(Form form, char trans, int32_t m, int32_t n, int32_t incx, int32_t incy, float alpha,
                        float beta) {
  std::mt19937 random(static_cast<unsigned>(m * 7 + n));
  const bool is_rows = form == Form::kRows, is_trans = trans != 'N' && trans != 'n';
  const Stored a(is_rows ? m : n, is_rows ? n : m, 2, random);
  const int64_t length_x = is_trans ? m : n, length_y = is_trans ? n : m;
  const Stored x(length_x, 1, std::abs(incx) - 1, random);  // element i at i * |incx|
  Stored y(length_y, 1, std::abs(incy) - 1, random);
  const Stored before = y;
  const auto place = [](int64_t i, int64_t length, int32_t increment) {
    return increment < 0 ? length - 1 - i : i;
  };
  if (beta == 0)
    for (float& value : y.data) value = kNaN;
  const auto lda = static_cast<int32_t>(a.ld);
  if (form == Form::kFortran)
    sgemv_(&trans, &m, &n, &alpha, a.data.data(), &lda, x.data.data(), &incx, &beta, y.data.data(), &incy, 1);
  else
    cblas_sgemv(is_rows ? kCblasRowMajor : kCblasColMajor, is_trans ? kCblasTrans : kCblasNoTrans, m, n,
                alpha, a.data.data(), lda, x.data.data(), incx, beta, y.data.data(), incy);
  for (int64_t i = 0; i < length_y; ++i) {
    double sum = 0, magnitude = 0;
    for (int64_t l = 0; l < length_x; ++l) {
      const int64_t row = is_trans ? l : i, column = is_trans ? i : l;
      const double product = static_cast<double>(is_rows ? a.at(row, column) : a.at(column, row)) *
                             x.at(place(l, length_x, incx), 0);
      sum += product;
      magnitude += std::fabs(product);
    }
    const double old = beta == 0 ? 0 : static_cast<double>(beta) * before.at(place(i, length_y, incy), 0);
    const double bound = (length_x + 4) * 0x1p-24 * (std::fabs(alpha) * magnitude + std::fabs(old)) + 1e-30;
    ASSERT_NEAR(y.at(place(i, length_y, incy), 0), alpha * sum + old, bound)
        << trans << " m=" << m << " n=" << n << " incx=" << incx << " incy=" << incy << " i=" << i;
  }
  for (int64_t i = 0; i < length_y; ++i)
    for (int64_t p = 1; p < y.ld; ++p)
      ASSERT_TRUE(std::isnan(y.at(i, p))) << "wrote between the elements of y";
}

inline void check_batch(int32_t batch, int32_t stridea, int32_t strideb, int32_t stridec, float beta) {
  constexpr int32_t kM = 18, kN = 17, kK = 20;
  constexpr float kAlpha = 1;
  const auto start = [&](int32_t stride) { return stride < 0 ? -int64_t{stride} * (batch - 1) : 0; };
  const auto make = [&](int32_t stride, int64_t matrix) {
    std::vector<float> data(std::abs(int64_t{stride}) * (batch - 1) + matrix);
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>((i * 7 + matrix) % 13) - 6;
    return data;
  };
  const std::vector<float> a = make(stridea, kM * kK), b = make(strideb, kK * kN);
  std::vector<float> fortran = make(stridec, kM * kN), rows, expected;
  expected = rows = fortran;
  for (int32_t p = 0; p < batch; ++p) {
    const float* pa = &a[start(stridea) + int64_t{p} * stridea];
    const float* pb = &b[start(strideb) + int64_t{p} * strideb];
    float* pc = &expected[start(stridec) + int64_t{p} * stridec];
    for (int i = 0; i < kM; ++i)
      for (int j = 0; j < kN; ++j) {
        float sum = 0;  // integers: exact
        for (int l = 0; l < kK; ++l) sum += pa[l * kM + i] * pb[j * kK + l];
        pc[j * kM + i] = sum + (beta == 0 ? 0 : beta * pc[j * kM + i]);
      }
  }
  sgemm_batch_strided_("N", "N", &kM, &kN, &kK, &kAlpha, &a[start(stridea)], &kM, &stridea,
                       &b[start(strideb)], &kK, &strideb, &beta, &fortran[start(stridec)], &kM, &stridec,
                       &batch, 1, 1);
  EXPECT_EQ(fortran, expected) << stridea << " " << strideb << " " << stridec;
  // The same product by rows: C' = B' A'.
  cblas_sgemm_batch_strided(kCblasRowMajor, kCblasNoTrans, kCblasNoTrans, kN, kM, kK, kAlpha,
                            &b[start(strideb)], kK, strideb, &a[start(stridea)], kM, stridea, beta,
                            &rows[start(stridec)], kM, stridec, batch);
  EXPECT_EQ(rows, expected) << stridea << " " << strideb << " " << stridec;
}

}  // namespace blas_test
