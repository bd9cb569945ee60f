// The determinism levels: equal bits in every run, and rows whose bits do not depend on the batch.
#include <algorithm>
#include <cstring>

#include "case_limits.h"
#include "device.h"
#include "matmul_case.h"

namespace lathe::conformance {
namespace {

constexpr lathe_dtype kFloats[] = {LATHE_F32, LATHE_F16, LATHE_BF16};

class DeterminismTest : public ConformanceTest {
 protected:
  // Runs regardless of the case limits, because the caller reads the output.
  static void run_now(MatmulRequest* request) {
    request->reset_output();
    ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, request->desc()));
    ASSERT_TRUE(request->check());
  }
  Random random_ = random_stream(5);
};

TEST_F(DeterminismTest, RunToRunRepeatsItsBits) {
  const int64_t shapes[][3] = {{1, 129, 8191}, {7, 65, 4099}, {33, 67, 20011}, {130, 70, 513}};
  for (const auto& shape : shapes) {
    for (int32_t split : {0, 7}) {
      MatmulCase c;
      c.m = capped(shape[0]);
      c.n = capped(shape[1]);
      c.k = capped(shape[2]);
      if (leaves_out({c.m, c.n, c.k})) continue;
      c.trans_b = shape[0] % 2;
      c.determinism = LATHE_DETERMINISM_RUN_TO_RUN;
      c.split_k = split;
      MatmulRequest request(c, &random_);
      ASSERT_NO_FATAL_FAILURE(run_now(&request));
      const std::vector<uint8_t> first = request.output_bytes();
      for (int64_t run = 1; run < quick_or(4, 50); ++run) {
        request.reset_output();
        ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, request.desc()));
        ASSERT_EQ(request.output_bytes(), first) << "run " << run << " of " << c.describe();
      }
    }
  }
}

// Row i has the same bits in a product of m rows and in the product of all rows.
TEST_F(DeterminismTest, BatchInvariantRowsDoNotDependOnM) {
  const int64_t weights[][2] = {{48, 300}, {67, 4099}, {257, 64}, {33, 20011}};
  int which = 0;
  for (const auto& weight : weights) {
    for (bool trans_b : {false, true}) {
      MatmulCase c;
      c.m = capped(quick_or(140, 600));
      c.n = capped(weight[0]);
      c.k = capped(is_quick() ? std::min<int64_t>(weight[1], 700) : weight[1]);
      if (leaves_out({c.m, c.n, c.k})) continue;
      c.in = kFloats[which % 3];
      c.out = which % 2 ? c.in : LATHE_F32;
      c.trans_b = trans_b;
      c.trans_a = which % 3 == 2;
      c.bias = which % 2 ? LATHE_F32 : LATHE_DTYPE_NONE;
      c.determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
      ++which;
      MatmulRequest request(c, &random_);
      if (c.k < 5000) {
        ASSERT_NO_FATAL_FAILURE(run_now(&request));
      } else {
        request.reset_output();
        ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, request.desc()));
      }
      const std::vector<uint8_t> whole = request.output_bytes();
      const size_t row_bytes = whole.size() / static_cast<size_t>(c.m);
      std::vector<int64_t> sizes = {65, 100, 128, 129, 256, 257, 512, 513};
      for (int64_t m = 1; m <= 64; m += quick_or(7, 1)) sizes.push_back(m);
      sizes.erase(std::remove_if(sizes.begin(), sizes.end(), [&](int64_t m) { return m > c.m; }),
                  sizes.end());
      // A transposed A keeps its leading dimension, even if the product has fewer rows.
      request.mutable_desc()->a.leading_dimension = c.trans_a ? c.m : c.k;
      for (int64_t m : sizes) {
        request.reset_output();
        request.mutable_desc()->m = m;
        ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, request.desc()));
        const std::vector<uint8_t> part = request.output_bytes();
        ASSERT_EQ(std::memcmp(part.data(), whole.data(), row_bytes * static_cast<size_t>(m)), 0)
            << "rows of m=" << m << " differ from those of m=" << c.m << ": " << c.describe();
      }
    }
  }
}

TEST_F(DeterminismTest, BatchInvariantDoesNotDependOnRowPosition) {
  MatmulCase c;
  c.m = 64;
  c.n = 100;
  c.k = capped(777);
  c.determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
  c.flush = Flush::kStart;
  MatmulRequest request(c, &random_);
  ASSERT_NO_FATAL_FAILURE(run_now(&request));
  const std::vector<uint8_t> whole = request.output_bytes();
  const size_t row_bytes = whole.size() / 64;
  uint8_t* a = static_cast<uint8_t*>(request.desc()->a.data);
  for (int64_t i = 0; i < 64; i += 7) {
    request.reset_output();
    request.mutable_desc()->m = 1;
    request.mutable_desc()->a.data = a + i * c.k * 4;
    ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, request.desc()));
    const std::vector<uint8_t> row = request.output_row(0);
    EXPECT_EQ(std::memcmp(row.data(), whole.data() + static_cast<size_t>(i) * row_bytes, row_bytes), 0)
        << "row " << i;
  }
}

// The bits must not depend on the number of workers, which is not among N, K, dtypes and target.
TEST_F(DeterminismTest, BatchInvariantDoesNotDependOnWorkers) {
  SKIP_UNLESS_CPU("only the CPU has workers");
  MatmulCase c;
  c.m = 5;
  c.n = 300;
  c.k = 9001;
  c.trans_b = true;
  c.determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
  MatmulRequest request(c, &random_);
  ASSERT_TRUE(request.run(device()));
  const std::vector<uint8_t> two = request.output_bytes();
  for (int32_t workers : {1, 3, 8}) {
    OpenDevice other(memory_only(workers));
    ASSERT_EQ(other.status(), LATHE_OK) << lathe_last_error();
    ASSERT_TRUE(request.run(other.get()));
    EXPECT_EQ(request.output_bytes(), two) << workers << " workers";
  }
}

}  // namespace
}  // namespace lathe::conformance
