// Checks the error bound of long sums that docs/numerics.md states, and the promises of each determinism level over
// many runs and every small M.
#include <cmath>
#include <cstring>

#include "case_limits.h"
#include "device.h"
#include "matmul_case.h"

namespace lathe::conformance {
namespace {

class Numerics : public ConformanceTest {
 protected:
  void SetUp() override {
    ConformanceTest::SetUp();
    if (!IsSkipped()) SKIP_UNLESS_CPU("thousands of products take too long");
  }
  Random random_ = random_stream(19);
};

// |D - exact| <= 6 sqrt(K + 4) 2^-24 sum_k |a_ik b_kj| for f32 results of every plan. The test computes this from the
// operands and does not use the reference of the other tests.
TEST_F(Numerics, LongSumsStayWithinTheStatedBound) {
  double worst = 0;
  for (int64_t k : {50021, 65536, 131071}) {
    for (lathe_dtype in : {LATHE_F32, LATHE_F16, LATHE_BF16}) {
      for (int64_t m : {1, 6, 40}) {
        MatmulCase c;
        c.m = m, c.n = 5, c.k = k;
        c.in = in;
        c.trans_b = random_.below(2);
        MatmulRequest request(c, &random_);
        request.reset_output();
        ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, request.desc()));
        const std::vector<uint8_t> out = request.output_bytes();
        const auto* a = static_cast<const uint8_t*>(request.desc()->a.data);
        const auto* b = static_cast<const uint8_t*>(request.desc()->b.data);
        const int64_t bytes = in == LATHE_F32 ? 4 : 2;
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < c.n; ++j) {
            double sum = 0, magnitude = 0;
            for (int64_t q = 0; q < k; ++q) {
              const double product = load(in, a + (i * k + q) * bytes) *
                                     load(in, b + (c.trans_b ? j * k + q : q * c.n + j) * bytes);
              sum += product;
              magnitude += std::fabs(product);
            }
            const double error = std::fabs(load(LATHE_F32, out.data() + (i * c.n + j) * 4) - sum) / magnitude;
            worst = std::max(worst, error / (std::sqrt(static_cast<double>(k + 4)) * 0x1p-24));
            ASSERT_LE(error, 6 * std::sqrt(static_cast<double>(k + 4)) * 0x1p-24) << c.describe();
          }
        }
      }
    }
  }
  std::printf("worst error: %.3f sqrt(K + 4) 2^-24 sum |a b|, of 6 allowed\n", worst);
}

// Sums of i8 are exact for every K whose largest possible sum fits i32.
TEST_F(Numerics, LongSumsOfBytesAreExact) {
  MatmulCase c;
  c.m = 3, c.n = 20, c.k = 131071;  // 127 * 127 * 131071 < 2^31
  c.in = LATHE_I8;
  c.out = LATHE_I32;
  c.trans_b = true;
  EXPECT_TRUE(run_case(device(), c, &random_));
}

// Several forms: unsplit and split sums, few rows and panels, weights of each kind.
TEST_F(Numerics, RunToRunRepeatsItsBitsOverAThousandRuns) {
  struct Product {
    lathe_dtype in, b;
    int64_t m, n, k;
    int32_t split;
  };
  constexpr lathe_dtype kSame = LATHE_DTYPE_NONE;
  for (const Product& p :
       {Product{LATHE_F32, kSame, 4, 130, 4099, 0}, Product{LATHE_F32, kSame, 4, 130, 4099, 7},
        Product{LATHE_F32, kSame, 1, 257, 2050, 3}, Product{LATHE_F32, kSame, 40, 67, 515, 0},
        Product{LATHE_F32, kSame, 130, 48, 300, 2}, Product{LATHE_BF16, kSame, 5, 130, 1031, 0},
        Product{LATHE_F16, kSame, 3, 67, 1031, 4}, Product{LATHE_F32, LATHE_Q4_0, 2, 96, 1056, 0}}) {
    MatmulCase c;
    c.m = p.m, c.n = p.n, c.k = p.k;
    c.in = p.in;
    c.b = p.b;
    c.trans_b = true;
    c.determinism = LATHE_DETERMINISM_RUN_TO_RUN;
    c.split_k = p.split;
    MatmulRequest request(c, &random_);
    ASSERT_TRUE(request.run(device()));
    const std::vector<uint8_t> first = request.output_bytes();
    for (int run = 1; run < 1000; ++run) {
      request.reset_output();
      ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, request.desc()));
      ASSERT_EQ(request.output_bytes(), first) << "run " << run << " of " << c.describe();
    }
  }
}

TEST_F(Numerics, BatchInvariantRowsHaveTheSameBitsForEveryMTo256) {
  struct Weight {
    lathe_dtype in;
    bool trans_b;
    int64_t n, k;
  };
  for (const Weight& w :
       {Weight{LATHE_F32, true, 67, 700}, Weight{LATHE_F32, false, 33, 515}, Weight{LATHE_F16, true, 40, 517},
        Weight{LATHE_BF16, true, 48, 514}, Weight{LATHE_BF16, false, 40, 1031}}) {
    MatmulCase c;
    c.m = 256, c.n = w.n, c.k = w.k;
    c.in = w.in;
    c.trans_b = w.trans_b;
    c.determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
    MatmulRequest request(c, &random_);
    ASSERT_TRUE(request.run(device()));
    const std::vector<uint8_t> whole = request.output_bytes();
    for (int64_t m = 1; m < 256; ++m) {
      request.reset_output();
      request.mutable_desc()->m = m;
      ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, request.desc()));
      const std::vector<uint8_t> part = request.output_bytes();
      ASSERT_EQ(std::memcmp(part.data(), whole.data(), whole.size() / 256 * static_cast<size_t>(m)), 0)
          << "m=" << m << " of " << c.describe();
    }
  }
}

}  // namespace
}  // namespace lathe::conformance
