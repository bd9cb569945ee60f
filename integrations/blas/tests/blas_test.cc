// The functions that liblathe_blas.so serves itself, against sums in double. CMakeLists.txt runs this program several
// times: on Lathe's compiled kernels, on its generic ones, and with a next BLAS that counts its calls.
#include "random_product.h"

namespace blas_test {
namespace {

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

}  // namespace
}  // namespace blas_test
