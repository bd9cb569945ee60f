// Leading dimensions of single lines and strides of single matrices may have any value: results are correct,
// and no byte outside the operands is touched.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "argmax_case.h"
#include "device.h"
#include "matmul_argmax_case.h"
#include "matmul_case.h"
#include "packed_request.h"

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
  if (d->b.packed_layout == 0) spoil(&d->b, d->k, d->n, d->batch, anything);
  if (d->b.packed_layout != 0 && d->batch <= 1) d->b.batch_stride = anything;
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

TEST_F(SingleLines, IgnoresDistancesOfQuantisedAndPackedOperands) {
  SKIP_UNLESS_CPU("only the CPU has these kernels");
  for (const int64_t m : {1, 2, 19})
    for (const int64_t n : {1, 33})
      for (const int64_t batch : {1, 2}) {
        MatmulCase blocks;
        blocks.m = m, blocks.n = n, blocks.k = 96, blocks.batch = batch;
        blocks.b = LATHE_Q4_0, blocks.trans_b = true;
        MatmulRequest in_blocks(blocks, &random_);
        expect(device(), &in_blocks);

        MatmulCase bytes = blocks;
        bytes.in = LATHE_I8, bytes.b = LATHE_DTYPE_NONE;
        bytes.scale_a = bytes.scale_b = 2;
        bytes.zero_b = true;
        bytes.trans_b = m == 1;
        MatmulRequest scaled(bytes, &random_);
        expect(device(), &scaled);
        bytes.k = 1;
        MatmulRequest of_one(bytes, &random_);
        expect(device(), &of_one);

        for (const lathe_dtype in : {LATHE_F32, LATHE_BF16}) {
          MatmulCase plain = blocks;
          plain.in = in, plain.b = LATHE_DTYPE_NONE;
          PackedRequest packed(device(), plain, &random_);
          ASSERT_LATHE_OK(packed.status());
          expect(device(), &packed.request());
        }
      }
}

// The weight before packing, with one row or one column.
TEST_F(SingleLines, IgnoresDistancesOfAWeightToPack) {
  SKIP_UNLESS_CPU("only the CPU has packed weights");
  for (const auto& [n, k, trans_b] : {std::tuple{70, 1, false}, {1, 70, true}, {1, 1, false}})
    for (const int64_t anything : kAnything) {
      MatmulCase c;
      c.m = 3, c.n = n, c.k = k, c.trans_b = trans_b;
      PackedRequest packed(device(), c, &random_, [&](lathe_operand* b) { spoil(b, k, n, 1, anything); });
      EXPECT_TRUE(packed.run(device())) << anything;
    }
}

TEST_F(SingleLines, IgnoresDistancesOfMatmulArgmax) {
  for_each_product([&](const MatmulCase& shape) {
    if (shape.n == 0) return;
    MatmulArgmaxCase c;
    c.m = shape.m, c.n = shape.n, c.k = shape.k;
    c.in = shape.trans_a ? LATHE_F32 : LATHE_BF16;
    c.trans_a = shape.trans_a, c.trans_b = shape.trans_b;
    c.wants_values = true;
    c.flush = shape.flush, c.values = shape.values;
    MatmulArgmaxRequest request(c, &random_);
    for (const int64_t anything : kAnything) {
      lathe_matmul_argmax_desc* d = request.mutable_desc();
      spoil(&d->a, d->m, d->k, 2, anything);
      spoil(&d->b, d->k, d->n, 2, anything);
      ASSERT_TRUE(request.run(device())) << "distances of " << anything;
    }
  });
}

TEST_F(SingleLines, IgnoresDistancesOfArgmax) {
  for (const int64_t rows : {0, 1})
    for (const int64_t n : {1, 33, 1500})
      for (const int64_t anything : kAnything) {
        ArgmaxCase c;
        c.rows = rows, c.n = n;
        c.in = LATHE_F16;
        c.kind = Rows::kTies;
        ArgmaxRequest request(c, &random_);
        request.mutable_desc()->x.leading_dimension = anything;
        ASSERT_TRUE(request.run(device())) << anything;
      }
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

// Every op refuses two lines that overlap (distance less than their length) and names the distance.
TEST_F(SingleLines, RejectsOverlappingLines) {
  const auto refused = [&](lathe_status status, const char* says) {
    EXPECT_EQ(status, LATHE_INVALID_ARGUMENT) << says;
    EXPECT_NE(std::string(lathe_last_error()).find(says), std::string::npos) << lathe_last_error();
  };
  MatmulCase c;
  c.m = 2, c.n = 33, c.k = 65;
  c.c_mode = CMode::kSeparate, c.beta = 1;
  c.residual_mode = ResidualMode::kSeparate;
  MatmulRequest request(c, &random_);
  lathe_matmul_desc* const d = request.mutable_desc();
  const std::pair<lathe_operand*, const char*> operands[] = {{&d->a, "lda 1 < k 65"},
                                                             {&d->b, "ldb 1 < n 33"},
                                                             {&d->c, "ldc 1 < n 33"},
                                                             {&d->d, "ldd 1 < n 33"},
                                                             {&d->epilogue.residual, "ldr 1 < n 33"}};
  for (const auto& [operand, says] : operands) {
    const int64_t right = operand->leading_dimension;
    operand->leading_dimension = 1;
    refused(lathe_matmul(device(), nullptr, d), says);
    operand->leading_dimension = right;
  }
  EXPECT_TRUE(request.run(device()));

  MatmulArgmaxCase head;
  head.m = 2, head.n = 33, head.k = 65;
  MatmulArgmaxRequest compared(head, &random_);
  compared.mutable_desc()->a.leading_dimension = 64;
  refused(lathe_matmul_argmax(device(), nullptr, compared.desc()), "lda 64 < k 65");
  compared.mutable_desc()->a.leading_dimension = 65;
  compared.mutable_desc()->b.leading_dimension = 64;
  refused(lathe_matmul_argmax(device(), nullptr, compared.desc()), "ldb 64 < k 65");

  ArgmaxCase row;
  row.rows = 2, row.n = 33;
  ArgmaxRequest argmax(row, &random_);
  argmax.mutable_desc()->x.leading_dimension = 32;
  refused(lathe_argmax(device(), nullptr, argmax.desc()), "ldx 32 < n 33");
}

}  // namespace
}  // namespace lathe::conformance
