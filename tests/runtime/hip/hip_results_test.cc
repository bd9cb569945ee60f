// Every result code of HIP, as the caller of a launch sees it.
#include "runtime/hip/hip_results.h"

#include "base/status.h"
#include "fake_hip.h"

namespace lathe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The hipError_t codes of HIP 5.2 and 6.2 (hip_runtime_api.h), which have the same numbers.
constexpr int kAll[] = {1,   2,   3,   4,   5,   6,   7,   8,   9,   12,  13,  17,  21,   35,   52,
                        53,  98,  100, 101, 200, 201, 202, 205, 206, 207, 208, 209, 210,  211,  212,
                        213, 214, 215, 216, 217, 218, 219, 300, 301, 302, 303, 304, 400,  401,  500,
                        600, 700, 701, 702, 704, 705, 708, 709, 710, 712, 713, 719, 720,  801,  900,
                        901, 902, 903, 904, 905, 906, 907, 908, 910, 911, 912, 999, 1052, 1053, 1054};
// After these every later call on the device fails.
constexpr int kLost[] = {53, 214, 700, 702, 710, 719, 1052, 1053};

class HipResults : public FakeHip {};

TEST_F(HipResults, TableHasEachResultOnce) {
  std::set<int> seen;
  for (const gpu::ResultRow& row : hip_results()) {
    EXPECT_TRUE(seen.insert(row.result).second) << row.result;
    EXPECT_NE(row.code, absl::StatusCode::kOk);
  }
  EXPECT_EQ(seen, std::set<int>(std::begin(kAll), std::end(kAll)));
}

TEST_F(HipResults, LaunchReportsEachWithNameAndKernel) {
  auto driver = open();
  const auto kernel = load(*driver, hsaco_of({step_of("tall_kernel")}));
  TestLaunch l(*kernel);
  for (int result : kAll) {
    state_->fail_once["hipModuleLaunchKernel"] = result;
    const absl::Status status = driver->launch(l.launch);
    EXPECT_FALSE(status.ok()) << result;
    EXPECT_THAT(message(status),
                AllOf(HasSubstr("tall_kernel"),
                      HasSubstr("hipError" + std::to_string(result) + " (as the fake driver says)")));
    const bool lost = std::find(std::begin(kLost), std::end(kLost), result) != std::end(kLost);
    if (lost) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << result;
      EXPECT_THAT(message(status), HasSubstr("the HIP context is lost: "));
    } else {
      EXPECT_THAT(message(status), Not(HasSubstr("is lost")));
    }
    EXPECT_TRUE(driver->launch(l.launch).ok()) << "the fake driver recovers after " << result;
  }
}

TEST_F(HipResults, ResultsBecomeTheRightStatusCodes) {
  auto driver = open();
  const auto kernel = load(*driver, hsaco_of({step_of("k")}));
  TestLaunch l(*kernel);
  using absl::StatusCode;
  const std::pair<int, StatusCode> codes[] = {
      {1, StatusCode::kInvalidArgument},   {2, StatusCode::kResourceExhausted},
      {3, StatusCode::kUnavailable},       {35, StatusCode::kUnavailable},
      {100, StatusCode::kUnavailable},     {400, StatusCode::kInvalidArgument},
      {709, StatusCode::kInvalidArgument}, {701, StatusCode::kInternal},
      {801, StatusCode::kUnimplemented},   {900, kCapturingCode},
      {901, StatusCode::kInvalidArgument}, {906, kCapturingCode},
      {999, StatusCode::kInternal},        {123456, StatusCode::kInternal}};
  for (const auto& [result, code] : codes) {
    state_->fail_once["hipModuleLaunchKernel"] = result;
    EXPECT_EQ(driver->launch(l.launch).code(), code) << result;
  }
}

}  // namespace
}  // namespace lathe
