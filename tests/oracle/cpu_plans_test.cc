// What the oracle chooses on CPUs, where the choice follows from the class alone.
#include <gtest/gtest.h>

#include "oracle/oracle.h"
#include "tests/kernels/device_files.h"

namespace lathe {
namespace {

// Predicted seconds of the best "direct" plan with vectors of so many rows; 0: there is none.
double direct_seconds(const OracleAnswer& answer, int32_t register_m) {
  for (size_t i = 0; i < answer.legal; ++i) {
    const RankedPlan& r = answer.ranked[i];
    if (r.plan.config.kernel == KernelKind::kDirect && r.plan.config.register_m == register_m)
      return r.plan.predicted_seconds;
  }
  return 0;
}

// A kernel serves every M of its bucket. Those of 65 to 128 lie in two tiles of 64 rows, of which the second
// is multiplied by as many vectors as it has, so that no width loses more than others; but where all passes
// fetch, as on Zen 3, two vectors of eight rows pad it to a multiple of 16: on average 104 rows, by one
// vector 100.
TEST(CpuPlans, RowsOfABucketArePaddedToWideVectorsWhereAllPassesFetch) {
  const auto loss_by_bucket = [](const DeviceFacts& f, int64_t size, int32_t wide, int32_t narrow) {
    ProblemClass c = matmul_class(DType::kF32, DType::kF32, size, size, m_bucket(96));
    c.trans_b = 1;
    const auto bucket = rank_plans(c, f, {1, 0}).value();
    c.m_lo = c.m_hi = 128;
    const auto exact = rank_plans(c, f, {1, 0}).value();
    return direct_seconds(bucket, wide) / direct_seconds(bucket, narrow) /
           (direct_seconds(exact, wide) / direct_seconds(exact, narrow));
  };
  EXPECT_NEAR(loss_by_bucket(shipped_facts("x86-64-avx512bf16"), 96, 64, 32), 1, 0.04);
  EXPECT_NEAR(loss_by_bucket(shipped_facts("x86-64-avx512bf16"), 96, 64, 16), 1, 0.09);
  const double padded = loss_by_bucket(shipped_facts("x86-64-avx2"), 1024, 16, 8);
  EXPECT_GT(padded, 1.03);
  EXPECT_LT(padded, 1.05);
}

}  // namespace
}  // namespace lathe
