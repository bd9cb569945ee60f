// Every result code of the CUDA driver, as the caller of a launch sees it.
#include "base/status.h"
#include "fake_gpu.h"
#include "runtime/cuda/cuda_results.h"

namespace lathe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using absl::StatusCode;

// The CUresult codes of the CUDA Driver API's reference, and the status that each becomes.
struct Expected {
  StatusCode code;
  std::vector<int> results;
  bool lost = false;  // every later call in the context fails
};
const std::vector<Expected> kExpected = {
    // The caller passed something unusable: a value, a stream, a context or a capture.
    {StatusCode::kInvalidArgument, {1, 101, 201, 400, 401, 709, 901, 902, 903, 904, 905, 907, 908, 917}},
    {StatusCode::kResourceExhausted, {2}},
    // The machine's installation or its current state.
    {StatusCode::kUnavailable,
     {3, 4, 34, 36, 46, 100, 102, 221, 222, 223, 800, 802, 803, 804, 805, 806, 807, 808, 809}},
    {StatusCode::kUnimplemented, {801}},
    {kCapturingCode, {900, 906}},
    {StatusCode::kDeadlineExceeded, {909}},
    {StatusCode::kInternal, {214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810}, true},
    // Results of calls that Lathe does not make, or that its own code must not provoke.
    {StatusCode::kInternal,
     {5,   6,   7,   8,   200, 202, 205, 206, 207, 208, 209, 210, 211, 212, 213, 215, 216,
      217, 218, 219, 224, 225, 300, 301, 302, 303, 304, 402, 500, 600, 701, 703, 704, 705,
      708, 711, 712, 713, 720, 811, 812, 910, 911, 912, 913, 914, 915, 916, 999}},
    {StatusCode::kInternal, {123456}},  // from a later driver
};

class CudaResults : public FakeGpu {};

TEST_F(CudaResults, LaunchReportsEachWithNameKernelAndCode) {
  auto driver = open();
  const auto kernel = load(*driver, artifact_of({step_of("tall_kernel")}));
  TestLaunch l(*kernel);
  for (const Expected& expected : kExpected)
    for (int result : expected.results) {
      state_->fail_once["cuLaunchKernelEx"] = result;
      const absl::Status status = driver->launch(l.launch);
      EXPECT_EQ(status.code(), expected.code) << result;
      EXPECT_THAT(message(status),
                  AllOf(HasSubstr("tall_kernel"),
                        HasSubstr("CUDA_ERROR_" + std::to_string(result) + " (as the fake driver says)")));
      if (expected.lost)
        EXPECT_THAT(message(status), HasSubstr("the CUDA context is lost: "));
      else
        EXPECT_THAT(message(status), Not(HasSubstr("is lost")));
      EXPECT_TRUE(driver->launch(l.launch).ok()) << "the fake driver recovers after " << result;
    }
}

TEST_F(CudaResults, TableHasNoDuplicateOrUnknownResults) {
  std::set<int> known, seen;
  for (const Expected& expected : kExpected)
    for (int result : expected.results) EXPECT_TRUE(known.insert(result).second) << result;
  for (const gpu::ResultRow& row : cuda_results()) {
    EXPECT_TRUE(seen.insert(row.result).second) << row.result;
    EXPECT_EQ(known.count(row.result), 1u) << row.result;
    EXPECT_NE(row.code, absl::StatusCode::kOk);
  }
}

}  // namespace
}  // namespace lathe
