// How the oracle prices CPU plans for a bucket of M.
#include <gtest/gtest.h>

#include "oracle/oracle.h"
#include "tests/kernels/device_files.h"

namespace lathe {
namespace {

// Predicted seconds of the best "direct" plan with `register_m` rows in a pass; 0 if there is none.
double direct_seconds(const OracleAnswer& answer, int32_t register_m) {
  for (size_t i = 0; i < answer.legal; ++i) {
    const RankedPlan& r = answer.ranked[i];
    if (r.plan.config.kernel == "direct" && r.plan.config.register_m == register_m)
      return r.plan.predicted_seconds;
  }
  return 0;
}

// A kernel serves every M of its bucket, here 65 to 128 in two tiles of 64 rows. A last pass normally multiplies
// only the vectors that it needs, so the width of a pass does not matter. On Zen 3, where all passes prefetch, a
// pass of 16 rows pads M to a multiple of 16 (104 rows on average), and a pass of 8 rows to a multiple of 8 (100).
TEST(CpuPlans, PricesPaddingOfWidePassesOnlyIfAllPassesPrefetch) {
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
