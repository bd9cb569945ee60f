// The error bound of long sums that docs/numerics.md states.
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

// The bound of run_case is that of docs/numerics.md: 6 sqrt(K + 4) 2^-24 sum_k |a_ik b_kj| and the rounding of alpha.
TEST_F(Numerics, LongSumsStayWithinTheStatedBound) {
  for (int64_t k : {50021, 65536, 131071}) {
    for (lathe_dtype in : {LATHE_F32, LATHE_F16, LATHE_BF16}) {
      for (int64_t m : {1, 6, 40}) {
        MatmulCase c;
        c.m = m, c.n = 5, c.k = k;
        c.in = in;
        c.trans_b = random_.below(2);
        EXPECT_TRUE(run_case(device(), c, &random_));
      }
    }
  }
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

}  // namespace
}  // namespace lathe::conformance
