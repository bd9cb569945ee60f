#include "results_fixture.h"

namespace lathe {
namespace {

using absl::StatusCode;

// The CUresult codes of the CUDA Driver API's reference.
const std::vector<ExpectedResults> kExpected = {
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

using CudaResults = ResultsTest<FakeGpu>;

TEST_F(CudaResults, LaunchReportsEachWithNameKernelAndCode) {
  expect_reported(kExpected, artifact_of({step_of("tall_kernel")}), "cuLaunchKernelEx", "CUDA_ERROR_");
}

TEST_F(CudaResults, TableHasNoDuplicateOrUnknownResults) {
  expect_known_once(kExpected, gpu::cuda_results());
}

}  // namespace
}  // namespace lathe
