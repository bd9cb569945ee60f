// Products whose M is in device memory: rows from M on are neither read nor written, and a captured graph follows M.
#include <gmock/gmock.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "case_limits.h"
#include "cli/stream_capture.h"
#include "device.h"
#include "guarded_memory.h"

namespace lathe::conformance {
namespace {

using testing::HasSubstr;

// A product of integers, whose sums are exact, with a limit of `most` rows.
class Product {
 public:
  Product(int64_t most, int64_t n, int64_t k, lathe_dtype dtype, Random* random)
      : most_(most),
        n_(n),
        k_(k),
        a_row_(k),
        a_(bytes(most * k, dtype), Flush::kStart),
        b_(bytes(n * k, dtype), Flush::kStart),
        d_(bytes(most * n, LATHE_F32), Flush::kStart),
        m_(sizeof(int32_t), Flush::kStart) {
    const auto fill = [&](const GuardedMemory& to, int64_t count) {
      for (int64_t i = 0; i < count; ++i)
        reference::store(to.data(), dtype, i, static_cast<double>(random->below(9)) - 4);
    };
    fill(a_, most * k), fill(b_, n * k);
    for (const GuardedMemory* memory : {&a_, &b_}) memory->publish();
    desc_.m = most, desc_.n = n, desc_.k = k;
    desc_.a.data = a_.address(), desc_.b.data = b_.address(), desc_.d.data = d_.address();
    desc_.a.dtype = desc_.b.dtype = dtype;
    desc_.d.dtype = LATHE_F32;
    desc_.b.layout = LATHE_COLUMN_MAJOR;
    desc_.m_device = static_cast<const int32_t*>(m_.address());
    dtype_ = dtype;
  }

  // Sets M, and D to a number that no sum is.
  void set_m(int32_t m) {
    std::memcpy(m_.data(), &m, sizeof m);
    m_.publish();
    for (int64_t i = 0; i < most_ * n_; ++i) reference::store(d_.data(), LATHE_F32, i, kUnwritten);
    d_.publish();
  }
  void check(int64_t m) {
    d_.fetch();
    EXPECT_TRUE(d_.canaries_intact());
    int failures = 0;
    for (int64_t i = 0; i < most_; ++i)
      for (int64_t j = 0; j < n_; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < k_; ++p)
          sum += reference::load(a_.data(), dtype_, i * a_row_ + p * a_step_) *
                 reference::load(b_.data(), dtype_, j * k_ + p);
        const double got = reference::load(d_.data(), LATHE_F32, i * n_ + j),
                     wanted = i < m ? sum : kUnwritten;
        if (got != wanted && ++failures < 4)
          ADD_FAILURE() << "row " << i << " column " << j << ": " << got << ", not " << wanted;
      }
  }
  lathe_matmul_desc& desc() { return desc_; }
  void store_a_by_columns() {
    a_step_ = most_, a_row_ = 1;
    desc_.a.layout = LATHE_COLUMN_MAJOR;
  }

 private:
  static constexpr double kUnwritten = 12345678;
  static size_t bytes(int64_t elements, lathe_dtype t) { return static_cast<size_t>(elements) * bytes_of(t); }

  int64_t most_, n_, k_, a_row_, a_step_ = 1;
  lathe_dtype dtype_;
  GuardedMemory a_, b_, d_, m_;
  lathe_matmul_desc desc_ = LATHE_MATMUL_DESC_INIT;
};

class DeviceM : public ConformanceTest {
 protected:
  Random random_ = random_stream(31);
};

TEST_F(DeviceM, ComputesTheRowsThatExist) {
  for (lathe_dtype dtype : {LATHE_F32, LATHE_BF16, LATHE_F16})
    for (int64_t most : {1, 6, 16, 100}) {
      const int64_t n = 40, k = 72;
      if (leaves_out({most, n, k})) continue;
      SCOPED_TRACE(absl::StrCat(name_of(dtype), " at most ", most, " rows"));
      Product product(most, n, k, dtype, &random_);
      for (int64_t m : {most, most / 2, int64_t{0}, (most + 3) / 4}) {
        product.set_m(static_cast<int32_t>(m));
        ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &product.desc()));
        ASSERT_LATHE_OK(lathe_stream_synchronize(device(), nullptr));
        product.check(m);
      }
    }
}

TEST_F(DeviceM, OutOfRangeIsRefusedOrClamped) {
  Product product(5, 9, 16, LATHE_F32, &random_);
  for (const int32_t m : {-1, 6, INT32_MAX, INT32_MIN}) {
    product.set_m(m);
    const lathe_status status = lathe_matmul(device(), nullptr, &product.desc());
    if (is_cpu()) {
      EXPECT_EQ(status, LATHE_INVALID_ARGUMENT);
      EXPECT_THAT(lathe_last_error(),
                  HasSubstr(absl::StrCat("m_device holds ", m, ", which is not in [0, m 5]")));
    } else {
      EXPECT_EQ(status, LATHE_OK) << lathe_last_error();
      EXPECT_LATHE_OK(lathe_stream_synchronize(device(), nullptr));
    }
    product.check(is_cpu() || m < 0 ? 0 : 5);
  }
}

// Memory is described for the limit: the columns of A are that far apart, whatever M is.
TEST_F(DeviceM, PackedColumnsHaveRoomForTheLimit) {
  Product product(9, 20, 24, LATHE_F32, &random_);
  product.store_a_by_columns();
  for (const int32_t m : {9, 4, 1, 0}) {
    product.set_m(m);
    ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &product.desc()));
    ASSERT_LATHE_OK(lathe_stream_synchronize(device(), nullptr));
    product.check(m);
  }
}

TEST_F(DeviceM, OutputsDoNotOverlapM) {
  Product product(5, 9, 16, LATHE_F32, &random_);
  product.set_m(3);
  product.desc().d.data = const_cast<int32_t*>(product.desc().m_device);
  EXPECT_EQ(lathe_matmul(device(), nullptr, &product.desc()), LATHE_INVALID_ARGUMENT);
  EXPECT_THAT(lathe_last_error(), HasSubstr("d overlaps m_device"));
}

// The same descriptor, again and again: a repeated call must read M anew.
TEST_F(DeviceM, IsReadByEveryCall) {
  Product product(12, 20, 24, LATHE_F32, &random_);
  for (int i = 0; i < 6; ++i) {
    const auto m = static_cast<int32_t>(random_.below(13));
    product.set_m(m);
    ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &product.desc()));
    ASSERT_LATHE_OK(lathe_stream_synchronize(device(), nullptr));
    product.check(m);
  }
}

// A plan for the limit serves every M, also those of other buckets.
TEST_F(DeviceM, PlansRunEveryMUpToTheLimit) {
  Product product(40, 20, 24, LATHE_F32, &random_);
  lathe_plan* plan = nullptr;
  ASSERT_LATHE_OK(lathe_plan_matmul(device(), &product.desc(), &plan));
  for (const int32_t m : {40, 33, 17, 16, 3, 0}) {
    SCOPED_TRACE(absl::StrCat("m ", m));
    product.set_m(m);
    EXPECT_LATHE_OK(lathe_plan_run_matmul(plan, nullptr, &product.desc()));
    EXPECT_LATHE_OK(lathe_stream_synchronize(device(), nullptr));
    product.check(m);
  }
  product.set_m(3);
  if (is_cpu()) {  // a slice needs the planned kernel
    EXPECT_EQ(lathe_plan_run_matmul_slice(plan, &product.desc(), 0, 0, 1), LATHE_INVALID_ARGUMENT);
    EXPECT_THAT(lathe_last_error(), HasSubstr("m 3 is not in [33, 64]"));
  }
  lathe_plan_destroy(plan);
}

TEST_F(DeviceM, CapturedGraphReplaysWithNewM) {
  SKIP_ON_CPU("has no graphs");
  for (lathe_dtype dtype : {LATHE_F32, LATHE_BF16}) {
    Product product(14, 24, 40, dtype, &random_);
    product.set_m(14);
    ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &product.desc()));  // loads the kernel
    ASSERT_LATHE_OK(lathe_stream_synchronize(device(), nullptr));
    OwnStream stream(device());
    auto capture = cli::open_capture(device_name());
    if (!capture.ok()) GTEST_SKIP() << capture.status();
    ASSERT_TRUE((*capture)->begin(stream.get()).ok());
    ASSERT_LATHE_OK(lathe_matmul(device(), stream.get(), &product.desc()));
    auto graph = (*capture)->end(stream.get());
    ASSERT_TRUE(graph.ok()) << graph.status();
    for (int32_t m : {14, 3, 0, 9}) {
      product.set_m(m);
      ASSERT_LATHE_OK(lathe_stream_synchronize(device(), nullptr));
      ASSERT_TRUE((*graph)->launch().ok());
      ASSERT_LATHE_OK(lathe_stream_synchronize(device(), stream.get()));
      product.check(m);
    }
  }
}

}  // namespace
}  // namespace lathe::conformance
