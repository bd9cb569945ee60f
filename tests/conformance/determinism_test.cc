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

// Unsplit and split sums, few rows and panels, weights of each kind. Small products run a thousand times.
TEST_F(DeterminismTest, RunToRunRepeatsItsBits) {
  struct Product {
    int64_t m, n, k;
    int32_t split = 0;
    lathe_dtype in = LATHE_F32, b = LATHE_DTYPE_NONE;
  };
  std::vector<Product> products = {{1, 129, 8191},
                                   {1, 129, 8191, 7},
                                   {7, 65, 4099},
                                   {7, 65, 4099, 7},
                                   {33, 67, 20011},
                                   {33, 67, 20011, 7},
                                   {130, 70, 513},
                                   {130, 70, 513, 7},
                                   {1, 257, 2050, 3},
                                   {5, 130, 1031, 0, LATHE_BF16},
                                   {3, 67, 1031, 4, LATHE_F16}};
  if (is_cpu()) products.push_back({2, 96, 1056, 0, LATHE_F32, LATHE_Q4_0});
  for (const Product& p : products) {
    MatmulCase c;
    c.m = capped(p.m), c.n = capped(p.n), c.k = capped(p.k);
    if (leaves_out({c.m, c.n, c.k})) continue;
    c.in = p.in, c.b = p.b;
    c.trans_b = p.m % 2 || p.b != LATHE_DTYPE_NONE;
    c.determinism = LATHE_DETERMINISM_RUN_TO_RUN;
    c.split_k = p.split;
    MatmulRequest request(c, &random_);
    ASSERT_NO_FATAL_FAILURE(run_now(&request));
    const std::vector<uint8_t> first = request.output_bytes();
    const int64_t runs = quick_or(4, p.m * p.n * p.k > 3000000 ? 50 : 1000);
    for (int64_t run = 1; run < runs; ++run) {
      request.reset_output();
      ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, request.desc()));
      ASSERT_EQ(request.output_bytes(), first) << "run " << run << " of " << c.describe();
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
      c.in = kFloats[which % 3];
      c.out = which % 2 ? c.in : LATHE_F32;
      c.trans_b = trans_b;
      c.trans_a = which % 3 == 2;
      c.bias = which % 2 ? LATHE_F32 : LATHE_DTYPE_NONE;
      c.determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
      ++which;
      MatmulRequest request(c, &random_);
      ASSERT_TRUE(is_batch_invariant(device(), &request, c.k < 600 && !is_quick() ? 256 : 64));
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
