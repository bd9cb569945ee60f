// The functions that liblathe_blas.so serves itself, against sums in double. CMakeLists.txt runs this program several
// times: on Lathe's compiled kernels, on its generic ones, and with a next BLAS that counts its calls.
#include "../src/blas.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

// The reports of illegal arguments come here, because the program's own functions take precedence.
namespace {
thread_local int reported = 0;
thread_local std::string reporter;
}  // namespace
extern "C" __attribute__((visibility("default"))) void xerbla_(const char* routine, const int32_t* parameter,
                                                               size_t length) {
  reported = *parameter;
  reporter.assign(routine, length);
}
extern "C" __attribute__((visibility("default"))) void cblas_xerbla(int parameter, const char* routine,
                                                                    const char*, ...) {
  reported = parameter;
  reporter = routine;
}

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
enum class Form { kFortran, kColumns, kRows };

// What CMakeLists.txt has set up for this run.
bool without_lathe() { return getenv("BLAS_TEST_WITHOUT_LATHE") != nullptr; }
bool has_next() { return std::string(getenv("LATHE_BLAS_NEXT")) != "none"; }

float from_bf16(uint16_t h) {
  const uint32_t bits = uint32_t{h} << 16;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}
uint16_t to_bf16(float value) {  // truncates: the test needs numbers of bf16, not the nearest ones
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>(bits >> 16);
}
// Numbers j / 64 with |j| <= 64 are exact in f16.
uint16_t to_f16(float value) {
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

void check_sgemm(const Case& c, Form form, unsigned seed = 1) {
  Product product(c, form, seed);
  product.run_sgemm();
  product.check();
}

constexpr Form kForms[] = {Form::kFortran, Form::kColumns, Form::kRows};

TEST(Sgemm, MatchesDoubleForEveryTransposition) {
  for (Form form : kForms)
    for (char transa : std::string("NTCntc"))
      for (char transb : std::string("NTCntc")) check_sgemm({37, 29, 41, transa, transb, 1.5f, 0.5f}, form);
}

TEST(Sgemm, MatchesDoubleForEverySize) {
  const int32_t sizes[] = {1, 2, 31, 97};
  for (int32_t m : sizes)
    for (int32_t n : sizes)
      for (int32_t k : sizes) check_sgemm({m, n, k, 'N', 'T'}, Form::kRows, m + n + k);
}

TEST(Sgemm, MatchesDoubleForEveryAlphaAndBeta) {
  for (Form form : kForms)
    for (float alpha : {0.0f, 1.0f, -0.75f})
      for (float beta : {0.0f, 1.0f, 2.5f})
        for (int32_t padding : {0, 5}) check_sgemm({33, 18, 20, 'N', 'N', alpha, beta, padding}, form);
}

TEST(Sgemm, SumsLongK) {
  check_sgemm({1, 1, 65537, 'N', 'N', 1, 0}, Form::kRows);
  check_sgemm({5, 3, 50021, 'T', 'N', 1, 1}, Form::kFortran);
  check_sgemm({64, 33, 51234, 'N', 'T', -1, 0.5f}, Form::kRows);
}

TEST(Sgemm, WritesNothingIfMOrNIsZero) {
  for (Form form : kForms) {
    check_sgemm({0, 5, 7}, form);
    check_sgemm({5, 0, 7}, form);
    check_sgemm({0, 0, 0}, form);
  }
}

TEST(Sgemm, ScalesCIfKIsZero) {
  for (Form form : kForms)
    for (float beta : {0.0f, 1.0f, 3.0f}) check_sgemm({6, 5, 0, 'N', 'N', 2, beta}, form);
}

TEST(Sgemm, ReadsNeitherANorBIfAlphaIsZero) {
  float c[6] = {kNaN, 1, 2, 3, 4, 5};
  cblas_sgemm(kCblasRowMajor, kCblasNoTrans, kCblasNoTrans, 2, 3, 4, 0, nullptr, 4, nullptr, 3, 0, c, 3);
  for (float x : c) EXPECT_EQ(x, 0);
}

// C lies in the same buffer as A, as in LAPACK's block algorithms.
TEST(Sgemm, UpdatesABlockOfAMatrixFromItsOtherBlocks) {
  constexpr int32_t kSize = 96, kBlock = 32, kRest = kSize - kBlock;
  const float minus = -1, one = 1;
  std::mt19937 random(7);
  std::uniform_int_distribution<int> number(-8, 8);
  std::vector<float> matrix(kSize * kSize);
  for (float& x : matrix) x = static_cast<float>(number(random));
  std::vector<float> expected = matrix;  // small integers: every order of the sums gives the same floats
  for (int32_t j = kBlock; j < kSize; ++j)
    for (int32_t i = kBlock; i < kSize; ++i)
      for (int32_t l = 0; l < kBlock; ++l)
        expected[j * kSize + i] -= matrix[l * kSize + i] * matrix[j * kSize + l];
  sgemm_("N", "N", &kRest, &kRest, &kBlock, &minus, &matrix[kBlock], &kSize, &matrix[kBlock * kSize], &kSize,
         &one, &matrix[kBlock * kSize + kBlock], &kSize, 1, 1);
  EXPECT_EQ(matrix, expected);
}

TEST(Half, MatchesDouble) {
  for (Form form : kForms)
    for (const char* trans : {"NN", "NT", "TN", "TT"}) {
      const Case c = {19, 35, 67, trans[0], trans[1], 1.25f, 0.5f};
      Product bf16(c, form, 3);
      bf16.run_half(to_bf16, sbgemm_, cblas_sbgemm);
      bf16.check();
      Product f16(c, form, 4);
      f16.run_half(to_f16, shgemm_, cblas_shgemm);
      f16.check();
    }
}

TEST(Half, HandlesEmptyProducts) {
  for (const Case& c :
       {Case{0, 3, 4}, Case{3, 0, 4}, Case{3, 4, 0, 'N', 'N', 1, 2}, Case{3, 4, 5, 'N', 'N', 0, 0}}) {
    Product product(c, Form::kRows, 1);
    product.run_half(to_bf16, sbgemm_, cblas_sbgemm);
    product.check();
  }
}

// ---- sgemv

void check_sgemv(Form form, char trans, int32_t m, int32_t n, int32_t incx, int32_t incy, float alpha,
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

TEST(Sgemv, MatchesDoubleForEveryIncrement) {
  const std::vector<int32_t> increments =
      has_next() ? std::vector<int32_t>{1} : std::vector<int32_t>{1, -1, 3, -2};
  for (Form form : kForms)
    for (char trans : std::string("NT"))
      for (int32_t incx : increments)
        for (int32_t incy : increments) check_sgemv(form, trans, 45, 31, incx, incy, 1.5f, 0.5f);
}

TEST(Sgemv, MatchesDoubleForEverySize) {
  for (int32_t m : {1, 2, 17, 130})
    for (int32_t n : {1, 3, 64, 257}) check_sgemv(Form::kFortran, 'T', m, n, 1, 1, 1, 0);
}

TEST(Sgemv, HandlesZeros) {
  for (Form form : kForms) {
    check_sgemv(form, 'N', 0, 5, 1, 1, 1, 0.5f);
    check_sgemv(form, 'N', 5, 0, 1, 1, 1, 1);
    check_sgemv(form, 'T', 5, 4, 1, -2, 0, 0);
    check_sgemv(form, 'N', 5, 4, 1, -2, 0, 3);
  }
}

// ---- sgemm_batch_strided

void check_batch(int32_t batch, int32_t stridea, int32_t strideb, int32_t stridec, float beta) {
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

TEST(SgemmBatchStrided, MatchesTheProductsOneByOne) {
  check_batch(5, 18 * 20, 20 * 17, 18 * 17, 0);
  check_batch(5, 18 * 20 + 3, 0, 18 * 17 + 1, 1);
  check_batch(1, 0, 0, 0, 2);
}

TEST(SgemmBatchStrided, RunsNegativeStridesAndOverlappingCInOrder) {
  check_batch(4, -400, 350, -320, 0);
  check_batch(3, 400, -350, 0, 1);
}

TEST(SgemmBatchStrided, WritesNothingIfTheBatchIsEmpty) {
  const int32_t one = 1, none = 0;
  const float alpha = 1, beta = 0;
  float c = 7;
  sgemm_batch_strided_("N", "N", &one, &one, &one, &alpha, &alpha, &one, &one, &alpha, &one, &one, &beta, &c,
                       &one, &one, &none, 1, 1);
  EXPECT_EQ(c, 7);
}

// ---- Illegal arguments: the positions are those of the reference BLAS and of Intel's manual.

struct Arguments {
  char transa = 'N', transb = 'N';
  int32_t m = 4, n = 5, k = 6, lda = 4, ldb = 6, ldc = 4, batch = 1;
};

TEST(IllegalArguments, ReportsThePositionInTheFortranForms) {
  if (has_next()) GTEST_SKIP() << "the next BLAS reports them";
  struct Row {
    Arguments x;
    int sgemm, batch;
  };
  const Row rows[] = {{{'X', 'N'}, 1, 1},
                      {{'N', 'X'}, 2, 2},
                      {{'N', 'N', -1}, 3, 3},
                      {{'N', 'N', 4, -1}, 4, 4},
                      {{'N', 'N', 4, 5, -1}, 5, 5},
                      {{'N', 'N', 4, 5, 6, 3}, 8, 8},
                      {{'T', 'N', 4, 5, 6, 5}, 8, 8},
                      {{'N', 'N', 4, 5, 6, 4, 5}, 10, 11},
                      {{'N', 'T', 4, 5, 6, 4, 4}, 10, 11},
                      {{'N', 'N', 4, 5, 6, 4, 6, 3}, 13, 15},
                      {{'N', 'N', 4, 5, 6, 4, 6, 4, -1}, 0, 17},
                      {{'N', 'N', 0, 5, 6, 0}, 8, 8}};
  std::vector<float> data(64, 1);
  const std::vector<uint16_t> halves(64, 0);
  const float alpha = 1, beta = 0;
  const int32_t stride = 30;
  for (const auto& [x, sgemm, batch] : rows) {
    reported = 0;
    sgemm_(&x.transa, &x.transb, &x.m, &x.n, &x.k, &alpha, data.data(), &x.lda, data.data(), &x.ldb, &beta,
           data.data() + 36, &x.ldc, 1, 1);
    EXPECT_EQ(reported, sgemm);
    if (sgemm != 0) EXPECT_EQ(reporter, "SGEMM ");
    reported = 0;
    sbgemm_(&x.transa, &x.transb, &x.m, &x.n, &x.k, &alpha, halves.data(), &x.lda, halves.data(), &x.ldb,
            &beta, data.data() + 36, &x.ldc, 1, 1);
    EXPECT_EQ(reported, sgemm);
    reported = 0;
    sgemm_batch_strided_(&x.transa, &x.transb, &x.m, &x.n, &x.k, &alpha, data.data(), &x.lda, &stride,
                         data.data(), &x.ldb, &stride, &beta, data.data() + 36, &x.ldc, &stride, &x.batch, 1,
                         1);
    EXPECT_EQ(reported, batch);
    EXPECT_EQ(reporter, "SGEMM_BATCH_STRIDED ");
  }
}

TEST(IllegalArguments, ReportsThePositionInTheCblasForms) {
  if (has_next()) GTEST_SKIP() << "the next BLAS reports them";
  struct Row {
    int order, transa, transb;
    int32_t m, n, k, lda, ldb, ldc;
    int position;
  };
  const Row rows[] = {{100, 111, 111, 4, 5, 6, 6, 6, 5, 1},  {101, 110, 111, 4, 5, 6, 6, 5, 5, 2},
                      {101, 111, 114, 4, 5, 6, 6, 5, 5, 3},  {101, 111, 111, -1, 5, 6, 6, 5, 5, 4},
                      {101, 111, 111, 4, -1, 6, 6, 5, 5, 5}, {101, 111, 111, 4, 5, -1, 6, 5, 5, 6},
                      {101, 111, 111, 4, 5, 6, 5, 5, 5, 9},  {101, 112, 111, 4, 5, 6, 3, 5, 5, 9},
                      {101, 111, 111, 4, 5, 6, 6, 4, 5, 11}, {101, 111, 111, 4, 5, 6, 6, 5, 4, 14},
                      {102, 111, 111, 4, 5, 6, 3, 6, 4, 9},  {102, 111, 111, 4, 5, 6, 4, 5, 4, 11},
                      {102, 111, 111, 4, 5, 6, 4, 6, 3, 14}};
  std::vector<float> data(64, 1);
  for (const Row& r : rows) {
    reported = 0;
    cblas_sgemm(r.order, r.transa, r.transb, r.m, r.n, r.k, 1, data.data(), r.lda, data.data(), r.ldb, 0,
                data.data() + 36, r.ldc);
    EXPECT_EQ(reported, r.position);
    EXPECT_EQ(reporter, "cblas_sgemm");
  }
}

TEST(IllegalArguments, ReportsThePositionInSgemv) {
  if (has_next()) GTEST_SKIP() << "the next BLAS reports them";
  struct Row {
    int order, trans;
    int32_t m, n, lda, incx, incy;
    int position;
  };
  const Row rows[] = {
      {101, 110, 4, 5, 5, 1, 1, 2},  {101, 111, -1, 5, 5, 1, 1, 3}, {101, 111, 4, -1, 5, 1, 1, 4},
      {101, 111, 4, 5, 4, 1, 1, 7},  {101, 111, 4, 5, 5, 0, 1, 9},  {101, 111, 4, 5, 5, 1, 0, 12},
      {102, 111, -1, 5, 4, 1, 1, 3}, {102, 111, 4, -1, 4, 1, 1, 4}, {102, 111, 4, 5, 3, 1, 1, 7}};
  std::vector<float> data(64, 1);
  for (const Row& r : rows) {
    reported = 0;
    cblas_sgemv(r.order, r.trans, r.m, r.n, 1, data.data(), r.lda, data.data(), r.incx, 0, data.data() + 36,
                r.incy);
    EXPECT_EQ(reported, r.position);
  }
  const int32_t four = 4, zero = 0, one = 1;
  const float alpha = 1;
  sgemv_("T", &four, &four, &alpha, data.data(), &four, data.data(), &zero, &alpha, data.data() + 36, &one,
         1);
  EXPECT_EQ(reported, 8);
  EXPECT_EQ(reporter, "SGEMV ");
}

// ---- The process

TEST(Process, ServesManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([t] {
      for (int round = 0; round < 10; ++round)
        check_sgemm({20 + 16 * (t % 4), 48, 40, 'N', 'N', 1, 0.5f}, kForms[t % 3],
                    static_cast<unsigned>(round));
    });
  for (std::thread& thread : threads) thread.join();
}

// Forks while other threads multiply. The child computes on its own threads, known and new shapes.
TEST(Process, ServesTheChildOfAFork) {
  std::atomic<bool> stops{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&stops, t] {
      while (!stops) check_sgemm({64, 64, 40 + t, 'N', 'N', 1, 0}, Form::kRows);
    });
  for (int round = 0; round < 5; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(60);  // a deadlock ends the child
      std::thread other([] { check_sgemm({64, 64, 40, 'N', 'N', 1, 0}, Form::kRows); });
      check_sgemm({23, 64, 50, 'T', 'N', 1, 0}, Form::kColumns);
      other.join();
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "wait status " << status;
  }
  stops = true;
  for (std::thread& thread : threads) thread.join();
}

// The program ends while the background thread is inside the compiler.
TEST(ProcessDeathTest, EndsWhileAKernelIsCompiled) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto leave = [] {
    setenv("LATHE_CACHE_DIR", "", 1);
    for (int32_t n = 100; n < 105; ++n)
      for (int round = 0; round < 2; ++round) check_sgemm({33, n, 110}, Form::kRows);
    exit(0);
  };
  for (int round = 0; round < 5; ++round) EXPECT_EXIT(leave(), testing::ExitedWithCode(0), "");
}

// NumPy warns of flags that a product leaves. The first call of a shape chooses a kernel, which divides.
TEST(Process, RaisesNoExceptionFlagsOnAMiss) {
  for (int32_t k : {87, 88}) {
    std::feclearexcept(FE_ALL_EXCEPT);
    const std::vector<float> ones(91 * 91, 1);
    std::vector<float> c(91 * 91);
    cblas_sgemm(kCblasRowMajor, kCblasNoTrans, kCblasNoTrans, 91, 89, k, 1, ones.data(), k, ones.data(), 89,
                0, c.data(), 89);
    EXPECT_EQ(std::fetestexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW), 0);
    EXPECT_EQ(c[0], static_cast<float>(k));
  }
}

// ---- The next BLAS is the one that counts its calls.

int& next_calls() {
  static int* const calls =
      static_cast<int*>(dlsym(dlopen(getenv("LATHE_BLAS_NEXT"), RTLD_NOW), "next_calls"));
  return *calls;
}

extern "C" double ddot_(const int32_t* n, const double* x, const int32_t* incx, const double* y,
                        const int32_t* incy);
extern "C" void cblas_dgemm(int order, int transa, int transb, int32_t m, int32_t n, int32_t k, double alpha,
                            const double* a, int32_t lda, const double* b, int32_t ldb, double beta,
                            double* c, int32_t ldc);

TEST(Next, ReceivesForwardedCallsUnchanged) {
  if (!has_next()) GTEST_SKIP();
  const double a = 3, b = 5;
  double c = 0;
  for (int round = 0; round < 2; ++round) {  // the first call resolves the name
    cblas_dgemm(101, 112, 113, 7, 11, 13, 1.5, &a, 17, &b, 19, 2.5, &c, 23);
    EXPECT_EQ(c, 101 + 2 * 112 + 3 * 113 + 4 * 7 + 5 * 11 + 6 * 13 + 7 * 1.5 + 8 * 3 + 9 * 17 + 10 * 5 +
                     11 * 19 + 12 * 2.5 + 13 * 23);
    const double x[] = {1, 2, 3, 4}, y[] = {5, 6};
    const int32_t two = 2, one = 1;
    EXPECT_EQ(ddot_(&two, x, &two, y, &one), 1 * 5 + 3 * 6);
  }
}

TEST(Next, ServesSmallProducts) {
  if (!has_next()) GTEST_SKIP();
  const int before = next_calls();
  check_sgemm({4, 4, 4}, Form::kFortran);
  EXPECT_EQ(next_calls(), before + 1);
}

// Computes one shape four times, in a new process. Exits with the number of calls of the next BLAS.
[[noreturn]] void count_next_calls(const Case& c, bool waits) {
  const int before = next_calls();
  std::vector<float> results[4];
  for (auto& result : results) {
    result.assign(c.m * c.n, 0);
    std::vector<float> a(c.m * c.k), b(c.k * c.n);
    for (size_t i = 0; i < a.size(); ++i) a[i] = 1.0f / static_cast<float>(i + 3);
    for (size_t i = 0; i < b.size(); ++i) b[i] = 1.0f / static_cast<float>(i + 7);
    cblas_sgemm(kCblasRowMajor, kCblasNoTrans, kCblasNoTrans, c.m, c.n, c.k, 1, a.data(), c.k, b.data(), c.n,
                0, result.data(), c.n);
    if (waits) usleep(500000);  // for the background thread
  }
  for (const auto& result : results)
    if (result != results[0]) exit(99);
  exit(next_calls() - before);
}

// A process never changes the server of a shape, so that equal calls give equal bits. The first process compiles the
// shape that comes again, a later one loads its kernel.
TEST(NextDeathTest, ServesAShapeInTheProcessThatCompilesIt) {
  if (!has_next() || without_lathe()) GTEST_SKIP();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // The child runs this function again, with the parent's environment.
  const bool is_parent = getenv("BLAS_TEST_PARENT") == nullptr;
  std::string cache = testing::TempDir() + "blas_test_XXXXXX";
  if (is_parent) {
    ASSERT_NE(mkdtemp(cache.data()), nullptr);
    setenv("LATHE_CACHE_DIR", cache.c_str(), 1);
    setenv("BLAS_TEST_PARENT", "1", 1);
  }
  const Case c = {61, 67, 71};
  for (int process = 0; process < 20; ++process) {
    int calls = -1;
    EXPECT_EXIT(count_next_calls(c, true), ([&](int status) {
                  calls = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
                  return calls == 4 || calls == 0;
                }),
                "");
    if (HasFailure()) return;
    if (calls == 0) {
      EXPECT_GT(process, 0) << "the cache was not empty";
      std::filesystem::remove_all(cache);
      return;
    }
  }
  FAIL() << "after 20 processes, the next BLAS still serves the shape";
}

TEST(Next, ServesEverythingWithoutLathe) {
  if (!without_lathe()) GTEST_SKIP();
  const int before = next_calls();
  check_sgemm({61, 67, 71}, Form::kFortran);
  check_sgemv(Form::kFortran, 'N', 100, 100, 1, 1, 1, 0);
  Product half({19, 35, 67}, Form::kFortran, 3);
  half.run_half(to_bf16, sbgemm_, cblas_sbgemm);
  half.check();
  check_batch(2, 360, 340, 306, 1);
  EXPECT_EQ(next_calls(), before + 1 + 1 + 1 + 4);
}

}  // namespace
