// Links a CPU kernel's code, and runs and plans grouped products, while allocations fail by index. LLVM's frames do
// not unwind, so what they hold leaks; nothing else may be lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "allocation_campaign.h"
#include "allocation_fixture.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/lsan_interface.h>
using Leaking = __lsan::ScopedDisabler;
#endif
#endif

namespace lathe::fault {
namespace {

#if !defined(__has_feature) || !__has_feature(address_sanitizer)
struct Leaking {};
#endif

TEST_F(Allocation, LinkingACpuKernelSurvivesEveryFailure) {
  const std::string directory = cache();
  const lathe_context_options options = c_options(directory);
  lathe_context* context = nullptr;
  lathe_device* device = nullptr;
  const auto drop = [&] {
    if (device != nullptr) lathe_device_close(device);
    lathe_context_destroy(context);
    device = nullptr;
    context = nullptr;
  };
  const auto open = [&] {
    drop();
    ASSERT_EQ(lathe_context_create(&options, &context), LATHE_OK) << lathe_last_error();
    ASSERT_EQ(lathe_device_open(context, "cpu", &device), LATHE_OK) << lathe_last_error();
  };
  MatmulRequest m(3, 5, 7);
  std::iota(m.a.begin(), m.a.end(), 1.0f);
  std::iota(m.b.begin(), m.b.end(), -4.0f);
  std::vector<float> expected(3 * 5);
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 5; ++j)
      for (size_t k = 0; k < 7; ++k) expected[i * 5 + j] += m.a[i * 7 + k] * m.b[j * 7 + k];
  const auto reopen = [&] {
    open();
    std::fill(m.d.begin(), m.d.end(), NAN);
  };
  const auto right = [&] { return m.d == expected; };
  const auto multiply = [&] {
    [[maybe_unused]] const Leaking leaking;
    return lathe_matmul(device, nullptr, &m.desc);
  };
  reopen();
  const lathe_status compiled = multiply();
  if (compiled == LATHE_NOT_AVAILABLE) GTEST_SKIP() << lathe_last_error();
  ASSERT_EQ(compiled, LATHE_OK) << lathe_last_error();
  ASSERT_TRUE(right());
  try_allocations({"lathe_matmul", "linked", multiply, reopen, right});
  // A loaded kernel must still run while the link of another one fails.
  ArgmaxRequest a(2, 9);
  a.x[4] = a.x[9 + 7] = 1;
  reopen();
  ASSERT_EQ(lathe_argmax(device, nullptr, &a.desc), LATHE_OK) << lathe_last_error();
  try_allocations(
      {"lathe_argmax", "linked beside another",
       [&] {
         [[maybe_unused]] const Leaking leaking;
         return lathe_argmax(device, nullptr, &a.desc);
       },
       [&] {
         reopen();
         ASSERT_EQ(multiply(), LATHE_OK) << lathe_last_error();
         std::fill(m.d.begin(), m.d.end(), NAN);
       },
       [&] { return multiply() == LATHE_OK && right() && a.indices[0] == 4 && a.indices[1] == 7; }});
  try_allocations({"lathe_device_close", "with linked code",
                   [&] {
                     [[maybe_unused]] const Leaking leaking;
                     lathe_device_close(device);
                     device = nullptr;
                     return LATHE_OK;
                   },
                   [&] {
                     reopen();
                     ASSERT_EQ(multiply(), LATHE_OK) << lathe_last_error();
                   }});
  drop();
}

TEST_F(Allocation, AGroupedProductSurvivesEveryFailure) {
  const std::string directory = cache();
  const lathe_context_options options = c_options(directory);
  lathe_context* context = nullptr;
  lathe_device* device = nullptr;
  ASSERT_EQ(lathe_context_create(&options, &context), LATHE_OK) << lathe_last_error();
  ASSERT_EQ(lathe_device_open(context, "cpu", &device), LATHE_OK) << lathe_last_error();
  // Rows 0 and 3 belong to group 1, rows 1, 2 and 4 to group 0: both are gathered and scattered.
  const std::vector<int32_t> routing = {1, 0, 0, 1, 0};
  const std::vector<float> a = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const std::vector<float> b = {1, 1, 2, -1, 3, 0, 0, 5};  // [group][n][k]
  std::vector<float> d(10), expected;
  for (size_t i = 0; i < 5; ++i)
    for (size_t j = 0; j < 2; ++j) {
      const float* row = &b[static_cast<size_t>(routing[i]) * 4 + j * 2];
      expected.push_back(a[i * 2] * row[0] + a[i * 2 + 1] * row[1]);
    }
  lathe_grouped_matmul_desc desc = LATHE_GROUPED_MATMUL_DESC_INIT;
  desc.grouping = LATHE_GROUPING_ROW_IDS;
  desc.m = 5, desc.n = 2, desc.k = 2, desc.groups = 2;
  desc.routing = routing.data();
  desc.a.data = const_cast<float*>(a.data()), desc.b.data = const_cast<float*>(b.data()),
  desc.d.data = d.data();
  desc.a.dtype = desc.b.dtype = desc.d.dtype = LATHE_F32;
  desc.b.layout = LATHE_COLUMN_MAJOR;
  desc.b.batch_stride = 4;
  const lathe_status first = lathe_grouped_matmul(device, nullptr, &desc);
  if (first == LATHE_OK) {
    try_allocations({"lathe_grouped_matmul", "loaded",
                     [&] { return lathe_grouped_matmul(device, nullptr, &desc); },
                     [&] { std::fill(d.begin(), d.end(), NAN); }, [&] { return d == expected; }});
  }
  lathe_device_close(device);
  lathe_context_destroy(context);
  if (first == LATHE_NOT_AVAILABLE) GTEST_SKIP() << "no compiler library";
  EXPECT_EQ(first, LATHE_OK);
}

TEST_F(Allocation, GroupedPlansSurviveEveryFailure) {
  Fake fake(options(cache()));
  std::vector<float> a(6 * 8), b(2 * 5 * 8), d(6 * 5);
  const std::vector<int32_t> routing = {0, 2, 6};
  lathe_grouped_matmul_desc desc = LATHE_GROUPED_MATMUL_DESC_INIT;
  desc.m = 6, desc.n = 5, desc.k = 8, desc.groups = 2;
  desc.routing = routing.data();
  desc.a.data = a.data(), desc.b.data = b.data(), desc.d.data = d.data();
  desc.a.dtype = desc.b.dtype = desc.d.dtype = LATHE_F32;
  desc.b.layout = LATHE_COLUMN_MAJOR;
  desc.b.batch_stride = 5 * 8;
  lathe_plan* plan = nullptr;
  const auto make = [&] { return lathe_plan_grouped_matmul(fake.device.get(), &desc, &plan); };
  const auto drop = [&] {
    lathe_plan_destroy(plan);
    plan = nullptr;
    fake.open();
  };
  ASSERT_EQ(make(), LATHE_OK) << lathe_last_error();
  try_allocations({"lathe_plan_grouped_matmul", "", make, drop, [&] { return plan != nullptr; }});
  drop();
  auto text = std::make_unique<Text>();
  const auto explain = [&] {
    return lathe_explain_grouped_matmul(fake.device.get(), &desc, Text::take, text.get());
  };
  ASSERT_EQ(explain(), LATHE_OK) << lathe_last_error();
  const std::string explained = text->str();
  try_allocations({"lathe_explain_grouped_matmul", "", explain, [&] { text->clear(); },
                   [&] { return text->str() == explained; }});
  lathe_tune_options how = LATHE_TUNE_OPTIONS_INIT;
  how.candidates = 2;
  how.candidate_nanoseconds = how.pool_bytes = 1;
  lathe_tune_report report = LATHE_TUNE_REPORT_INIT;
  const auto tune = [&] { return lathe_tune_grouped_matmul(fake.device.get(), &desc, &how, &report); };
  ASSERT_EQ(tune(), LATHE_OK) << lathe_last_error();
  try_allocations({"lathe_tune_grouped_matmul", "", tune, [&] { report = LATHE_TUNE_REPORT_INIT; },
                   [&] { return report.classes == 1 && report.replaced + report.confirmed == 1; }});
}

}  // namespace
}  // namespace lathe::fault
