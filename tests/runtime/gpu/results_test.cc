// Every result of the CUDA driver, as a caller of a launch sees it.
#include "fake_gpu.h"
#include "runtime/cuda/cuda_results.h"

namespace lathe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// CUresult as the CUDA Driver API's reference lists it.
constexpr int kAll[] = {1,   2,   3,   4,   5,   6,   7,   8,   34,  36,  46,  100, 101, 102, 200, 201, 202,
                        205, 206, 207, 208, 209, 210, 211, 212, 213, 214, 215, 216, 217, 218, 219, 220, 221,
                        222, 223, 224, 225, 226, 300, 301, 302, 303, 304, 400, 401, 402, 500, 600, 700, 701,
                        702, 703, 704, 705, 708, 709, 710, 711, 712, 713, 714, 715, 716, 717, 718, 719, 720,
                        721, 800, 801, 802, 803, 804, 805, 806, 807, 808, 809, 810, 811, 812, 900, 901, 902,
                        903, 904, 905, 906, 907, 908, 909, 910, 911, 912, 913, 914, 915, 916, 917, 999};
// Those after which a context answers nothing else.
constexpr int kLost[] = {214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810};

class CudaResults : public FakeGpu {};

TEST_F(CudaResults, ALaunchReportsEachByNameAndKernel) {
  auto driver = open();
  const auto kernel = load(*driver, artifact_of({step_of("tall_kernel")}));
  TestLaunch l(*kernel);
  for (int result : kAll) {
    state_->fail_once["cuLaunchKernelEx"] = result;
    const absl::Status status = driver->launch(l.launch);
    EXPECT_FALSE(status.ok()) << result;
    EXPECT_THAT(message(status),
                AllOf(HasSubstr("tall_kernel"),
                      HasSubstr("CUDA_ERROR_" + std::to_string(result) + " (as the fake driver says)")));
    const bool lost = std::find(std::begin(kLost), std::end(kLost), result) != std::end(kLost);
    if (lost) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << result;
      EXPECT_THAT(message(status), HasSubstr("the CUDA context is lost: "));
    } else {
      EXPECT_THAT(message(status), Not(HasSubstr("is lost")));
    }
    EXPECT_TRUE(driver->launch(l.launch).ok()) << "the fake driver recovers after " << result;
  }
}

TEST_F(CudaResults, CodesThatCallersTellApart) {
  auto driver = open();
  const auto kernel = load(*driver, artifact_of({step_of("k")}));
  TestLaunch l(*kernel);
  using absl::StatusCode;
  const std::pair<int, StatusCode> codes[] = {
      {1, StatusCode::kInvalidArgument},    {2, StatusCode::kResourceExhausted},
      {3, StatusCode::kUnavailable},        {4, StatusCode::kUnavailable},
      {46, StatusCode::kUnavailable},       {100, StatusCode::kUnavailable},
      {400, StatusCode::kInvalidArgument},  {701, StatusCode::kInternal},
      {801, StatusCode::kUnimplemented},    {900, StatusCode::kFailedPrecondition},
      {901, StatusCode::kInvalidArgument},  {906, StatusCode::kFailedPrecondition},
      {909, StatusCode::kDeadlineExceeded}, {999, StatusCode::kInternal},
      {123456, StatusCode::kInternal}};
  for (const auto& [result, code] : codes) {
    state_->fail_once["cuLaunchKernelEx"] = result;
    EXPECT_EQ(driver->launch(l.launch).code(), code) << result;
  }
}

TEST_F(CudaResults, TheTableNamesNoResultTwice) {
  std::set<int> seen;
  for (const gpu::ResultRow& row : cuda_results()) {
    EXPECT_TRUE(seen.insert(row.result).second) << row.result;
    EXPECT_NE(std::find(std::begin(kAll), std::end(kAll), row.result), std::end(kAll)) << row.result;
    EXPECT_NE(row.code, absl::StatusCode::kOk);
  }
  for (int lost : kLost) EXPECT_EQ(seen.count(lost), 1u) << lost;
}

}  // namespace
}  // namespace lathe
