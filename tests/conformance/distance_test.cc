// Leading dimensions of single lines and strides of single matrices may have any value: results are correct, and no byte
// outside the operands is touched. tests/request/request_distance_test.cc checks the same of the requests of every op.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "device.h"
#include "matmul_case.h"

namespace lathe::conformance {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
constexpr int64_t kAnything[] = {0, 1, 3, -7, 1000003, kLargest, std::numeric_limits<int64_t>::min()};

// Writes `anything` to the leading dimensions and strides that separate at most one line or matrix.
void spoil(lathe_operand* o, int64_t rows, int64_t columns, int64_t batch, int64_t anything) {
  if ((o->layout == LATHE_COLUMN_MAJOR ? columns : rows) <= 1) o->leading_dimension = anything;
  if (batch <= 1) o->batch_stride = anything;
}
void spoil(lathe_matmul_desc* d, int64_t anything) {
  spoil(&d->a, d->m, d->k, d->batch, anything);
  spoil(&d->b, d->k, d->n, d->batch, anything);
  for (lathe_operand* o : {&d->c, &d->d, &d->epilogue.residual}) spoil(o, d->m, d->n, d->batch, anything);
}

class SingleLines : public ConformanceTest {
 protected:
  // Runs one request with every value that its unused distances may have.
  void expect(lathe_device* device, MatmulRequest* request) {
    for (const int64_t anything : kAnything) {
      spoil(request->mutable_desc(), anything);
      ASSERT_TRUE(request->run(device)) << "distances of " << anything;
    }
  }
  // Calls `run` for products in which some operand has a single line, in every layout.
  void for_each_product(const std::function<void(MatmulCase)>& run) {
    int number = 0;
    for (const int64_t m : {0, 1, 2, 19})
      for (const int64_t n : {0, 1, 2, 33})
        for (const int64_t k : {0, 1, 2, 65})
          for (int layout = 0; layout < 4; ++layout) {
            if (std::min({m, n, k}) > 1 || (is_quick() && ++number % 8 != 0)) continue;
            MatmulCase c;
            c.m = m, c.n = n, c.k = k;
            c.trans_a = layout & 1, c.trans_b = layout & 2;
            c.flush = layout % 3 ? Flush::kEnd : Flush::kStart;
            c.values = layout % 2 ? Values::kNormal : Values::kSmallIntegers;
            run(c);
          }
  }

  Random random_ = random_stream(91);
};

TEST_F(SingleLines, IgnoresDistancesOfMatmulOperands) {
  int number = 0;
  for_each_product([&](MatmulCase c) {
    constexpr lathe_dtype kDtypes[] = {LATHE_F32, LATHE_F16, LATHE_BF16};
    c.in = kDtypes[number % 3], c.out = kDtypes[number / 2 % 3];
    c.c_mode = number % 2 ? CMode::kInPlace : CMode::kSeparate;
    c.beta = 2;
    c.bias = LATHE_F32;
    c.residual_mode = number % 3 ? ResidualMode::kSeparate : ResidualMode::kInPlace;
    c.padding = number % 5 ? 0 : 3;
    c.batch = number % 7 ? 1 : 3;
    ++number;
    MatmulRequest request(c, &random_);
    expect(device(), &request);
  });
}

// A library refuses a request whose rows overlap, so it must not see the unused values.
TEST_F(SingleLines, IgnoresDistancesInExternalLibraries) {
  SKIP_UNLESS_CPU("this tests the libraries of the CPU");
  int done = 0;
  for (const lathe_external_library library : {LATHE_EXTERNAL_OPENBLAS, LATHE_EXTERNAL_ONEDNN}) {
    lathe_context_options options = memory_only(2);
    options.external = LATHE_EXTERNAL_REQUIRE;
    options.external_library = library;
    const OpenDevice requiring(options);
    ASSERT_LATHE_OK(requiring.status());
    for_each_product([&](const MatmulCase& c) {
      MatmulRequest request(c, &random_);
      lathe_plan* plan = nullptr;
      if (lathe_plan_matmul(requiring.get(), request.desc(), &plan) != LATHE_OK) return;  // not installed
      lathe_plan_destroy(plan);
      expect(requiring.get(), &request);
      ++done;
    });
  }
  if (done == 0) GTEST_SKIP() << "no external library is installed";
}

TEST_F(SingleLines, IgnoresDistancesInPlansAndSlices) {
  MatmulCase c;
  c.m = 1, c.n = 33, c.k = 65, c.trans_b = true;
  MatmulRequest request(c, &random_);
  lathe_matmul_desc* const d = request.mutable_desc();
  spoil(d, 3);
  lathe_plan* plan = nullptr;
  ASSERT_LATHE_OK(lathe_plan_matmul(device(), d, &plan));
  std::vector<char> workspace;
  for (const int64_t anything : kAnything) {
    spoil(d, anything);
    request.reset_output();
    EXPECT_LATHE_OK(lathe_plan_run_matmul(plan, nullptr, d));
    EXPECT_TRUE(request.check());
    if (!is_cpu()) continue;
    int32_t phases = 0;
    size_t bytes = 0;
    ASSERT_LATHE_OK(lathe_plan_phases(plan, &phases));
    ASSERT_LATHE_OK(lathe_plan_slice_workspace_bytes(plan, 1, &bytes));
    workspace.resize(bytes + 64);
    const auto base = reinterpret_cast<uintptr_t>(workspace.data());
    request.set_workspace(workspace.data() + (64 - base % 64) % 64, bytes);
    request.reset_output();
    for (int32_t phase = 0; phase < phases; ++phase)
      EXPECT_LATHE_OK(lathe_plan_run_matmul_slice(plan, d, phase, 0, 1));
    EXPECT_TRUE(request.check());
    request.set_workspace(nullptr, 0);
  }
  lathe_plan_destroy(plan);
}

}  // namespace
}  // namespace lathe::conformance
