// The reports of illegal arguments. Their positions are those of the reference BLAS and of Intel's manual.
#include <string>

#include "random_product.h"

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

namespace blas_test {
namespace {

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

}  // namespace
}  // namespace blas_test
