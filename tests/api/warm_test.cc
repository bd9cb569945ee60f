#include "api/warm.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fake_device.h"

namespace lathe {
namespace {

TEST(Warm, AfterItNoMCompiles) {
  FakeDevice fake;
  MatmulRequest weight(1, 40, 33);
  weight.desc.m = 0;  // ignored
  lathe_warm_report report = LATHE_WARM_REPORT_INIT;
  ASSERT_EQ(lathe_warm_matmul(fake.device.get(), &weight.desc, 600, &report), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(report.compiled, report.classes);
  EXPECT_EQ(report.cached, 0u);
  EXPECT_GT(report.milliseconds, 0.0);
  EXPECT_EQ(fake.statistics().compiles, report.classes);
  for (int64_t m = 1; m <= 600; ++m) {
    MatmulRequest request(m, 40, 33);
    request.desc.miss_policy = LATHE_MISS_ERROR;
    ASSERT_EQ(lathe_matmul(fake.device.get(), nullptr, &request.desc), LATHE_OK) << m;
  }
  EXPECT_EQ(fake.statistics().dispatch_misses, 0u);

  lathe_warm_report again = LATHE_WARM_REPORT_INIT;
  ASSERT_EQ(lathe_warm_matmul(fake.device.get(), &weight.desc, 600, &again), LATHE_OK);
  EXPECT_EQ(again.classes, report.classes);
  EXPECT_EQ(again.compiled, 0u);
  EXPECT_EQ(again.cached, report.classes);
  EXPECT_EQ(lathe_warm_matmul(fake.device.get(), &weight.desc, 600, nullptr), LATHE_OK);
}

TEST(Warm, ADescribedDeviceFillsTheCacheOnly) {
  FakeDevice fake;
  MatmulRequest weight(1, 40, 33);
  lathe_warm_report report = LATHE_WARM_REPORT_INIT;
  ASSERT_EQ(lathe_warm_matmul(fake.described.get(), &weight.desc, 16, &report), LATHE_OK)
      << lathe_last_error();
  EXPECT_EQ(report.classes, 16u);
  EXPECT_EQ(report.compiled, 16u);
  EXPECT_EQ(fake.described->table.size(), 0u);
  ASSERT_EQ(lathe_warm_matmul(fake.described.get(), &weight.desc, 16, &report), LATHE_OK);
  EXPECT_EQ(report.cached, 16u);
  // The device with a driver has the same facts and finds them.
  ASSERT_EQ(lathe_warm_matmul(fake.device.get(), &weight.desc, 16, &report), LATHE_OK);
  EXPECT_EQ(report.cached, 16u);
  EXPECT_EQ(fake.statistics().compiles, 16u);
}

TEST(Warm, ArgmaxIsReadyForEveryRowLength) {
  FakeDevice fake;
  ArgmaxRequest rows(1, 10);
  lathe_warm_report report = LATHE_WARM_REPORT_INIT;
  ASSERT_EQ(lathe_warm_argmax(fake.device.get(), &rows.desc, &report), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(report.compiled, report.classes);
  for (int64_t n : {1, 1000, 1024, 1025, 16384, 16385, 50000}) {
    ArgmaxRequest request(2, n);
    request.desc.miss_policy = LATHE_MISS_ERROR;
    EXPECT_EQ(lathe_argmax(fake.device.get(), nullptr, &request.desc), LATHE_OK) << n;
  }
}

TEST(Warm, ReportsTheFirstErrorAndItsClass) {
  FakeDevice fake(fake_compiler("fails"));
  MatmulRequest weight(1, 40, 33);
  lathe_warm_report report = LATHE_WARM_REPORT_INIT;
  EXPECT_EQ(lathe_warm_matmul(fake.device.get(), &weight.desc, 64, &report), LATHE_COMPILE_FAILED);
  const std::string message = lathe_last_error();
  EXPECT_NE(message.find("n=40 k=33"), std::string::npos) << message;
  EXPECT_NE(message.find("stage vectorise"), std::string::npos) << message;
}

TEST(Warm, WeightsWithoutKernelsHaveNoClasses) {
  FakeDevice fake("/nowhere/liblathe-compiler.so");
  MatmulRequest weight(1, 40, 0);
  lathe_warm_report report = LATHE_WARM_REPORT_INIT;
  EXPECT_EQ(lathe_warm_matmul(fake.device.get(), &weight.desc, 64, &report), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(report.classes, 0u);
}

TEST(Warm, ListsTheClassesItWouldPrepare) {
  FakeDevice fake("/nowhere/liblathe-compiler.so");
  MatmulRequest weight(1, 40, 33);
  std::vector<std::string> classes;
  const auto collect = [](void* user, const char*, const char* text, size_t size) {
    static_cast<std::vector<std::string>*>(user)->emplace_back(text, size);
  };
  ASSERT_EQ(lathe_classes_matmul(fake.described.get(), &weight.desc, 40, collect, &classes), LATHE_OK)
      << lathe_last_error();
  int64_t next = 1;
  for (const std::string& text : classes) {
    const Json c = Json::parse(text);
    EXPECT_EQ(c["n"], 40);
    EXPECT_EQ(c["m_lo"], next) << "no M is left out";
    next = c["m_hi"].get<int64_t>() + 1;
  }
  EXPECT_GT(next, 40);
}

TEST(Warm, RefusesBadArguments) {
  FakeDevice fake;
  MatmulRequest weight(1, 40, 33);
  ArgmaxRequest rows(1, 10);
  EXPECT_EQ(lathe_warm_matmul(nullptr, &weight.desc, 64, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_warm_matmul(fake.device.get(), nullptr, 64, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_warm_matmul(fake.device.get(), &weight.desc, 0, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_warm_matmul(fake.device.get(), &weight.desc, int64_t{1} << 31, nullptr),
            LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_warm_argmax(nullptr, &rows.desc, nullptr), LATHE_INVALID_ARGUMENT);
  lathe_warm_report report = LATHE_WARM_REPORT_INIT;
  report.struct_size = 4;
  EXPECT_EQ(lathe_warm_matmul(fake.device.get(), &weight.desc, 64, &report), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_classes_matmul(fake.device.get(), &weight.desc, 64, nullptr, nullptr),
            LATHE_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace lathe
