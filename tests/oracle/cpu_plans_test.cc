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
    if (r.plan.config.kernel == "direct" && r.plan.config.register_m == register_m)
      return r.plan.predicted_seconds;
  }
  return 0;
}

// A kernel serves every M of its bucket. Those of 65 to 128 lie in two tiles of 64 rows, of which one vector
// of 64 rows pads the second to its end: on average 128 rows where vectors of 32 compute 112, and of 16 104.
// In the open bucket the padding is lost among the rows.
TEST(CpuPlans, RowsOfABucketAreNotPaddedToWideVectors) {
  const DeviceFacts& f = shipped_facts("x86-64-avx512bf16");
  ProblemClass c = matmul_class(DType::kF32, DType::kF32, 96, 96, m_bucket(96));
  c.trans_b = 1;
  const auto bucket = rank_plans(c, f, {1, 0}).value();
  c.m_lo = c.m_hi = 128;
  const auto exact = rank_plans(c, f, {1, 0}).value();
  const auto loss = [](const OracleAnswer& a, int32_t wide, int32_t narrow) {
    return direct_seconds(a, wide) / direct_seconds(a, narrow);
  };
  EXPECT_GT(loss(bucket, 64, 32), 1.05);
  EXPECT_GT(loss(bucket, 64, 32), 1.05 * loss(exact, 64, 32));
  EXPECT_LT(loss(bucket, 64, 32), 1.16 * loss(exact, 64, 32));
  EXPECT_GT(loss(bucket, 64, 16), 1.10 * loss(exact, 64, 16));
  EXPECT_LE(bucket.ranked[0].plan.config.register_m, 32);
}

}  // namespace
}  // namespace lathe
