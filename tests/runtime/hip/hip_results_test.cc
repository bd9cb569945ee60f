#include "fake_hip.h"
#include "results_fixture.h"

namespace lathe {
namespace {

using absl::StatusCode;

// The hipError_t codes of HIP 5.2 and 6.2 (hip_runtime_api.h), which have the same numbers.
const std::vector<ExpectedResults> kExpected = {
    {StatusCode::kInvalidArgument, {1, 17, 101, 201, 400, 401, 709, 901, 902, 903, 904, 905, 907, 908}},
    {StatusCode::kResourceExhausted, {2}},
    {StatusCode::kUnavailable, {3, 4, 35, 100}},
    {StatusCode::kUnimplemented, {801}},
    {kCapturingCode, {900, 906}},
    {StatusCode::kInternal, {53, 214, 700, 702, 710, 719, 1052, 1053}, true},
    {StatusCode::kInternal, {5,   6,   7,   8,   9,   12,  13,  21,  52,  98,  200, 202, 205, 206, 207,
                             208, 209, 210, 211, 212, 213, 215, 216, 217, 218, 219, 300, 301, 302, 303,
                             304, 500, 600, 701, 704, 705, 708, 712, 713, 720, 910, 911, 912, 999, 1054}},
    {StatusCode::kInternal, {123456}},  // from a later driver
};

using HipResults = ResultsTest<FakeHip>;

TEST_F(HipResults, LaunchReportsEachWithNameKernelAndCode) {
  expect_reported(kExpected, hsaco_of({step_of("tall_kernel")}), "hipModuleLaunchKernel", "hipError");
}

TEST_F(HipResults, TableHasNoDuplicateOrUnknownResults) { expect_known_once(kExpected, gpu::hip_results()); }

}  // namespace
}  // namespace lathe
