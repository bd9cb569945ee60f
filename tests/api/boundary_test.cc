#include "api/boundary.h"

#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

namespace lathe {
namespace {

TEST(Boundary, MapsEveryStatusCode) {
  const std::pair<absl::StatusCode, lathe_status> table[] = {
      {absl::StatusCode::kOk, LATHE_OK},
      {absl::StatusCode::kInvalidArgument, LATHE_INVALID_ARGUMENT},
      {absl::StatusCode::kUnimplemented, LATHE_UNSUPPORTED},
      {absl::StatusCode::kUnavailable, LATHE_NOT_AVAILABLE},
      {absl::StatusCode::kResourceExhausted, LATHE_OUT_OF_MEMORY},
      {absl::StatusCode::kAborted, LATHE_COMPILE_FAILED},
      {absl::StatusCode::kNotFound, LATHE_NOT_AVAILABLE},
      {absl::StatusCode::kPermissionDenied, LATHE_NOT_AVAILABLE},
      {absl::StatusCode::kDataLoss, LATHE_NOT_AVAILABLE},
      {absl::StatusCode::kDeadlineExceeded, LATHE_TIMEOUT},
      {absl::StatusCode::kCancelled, LATHE_CANCELLED},
      {absl::StatusCode::kInternal, LATHE_INTERNAL},
      {absl::StatusCode::kUnknown, LATHE_NOT_AVAILABLE},
      {absl::StatusCode::kAlreadyExists, LATHE_INTERNAL},
      {absl::StatusCode::kUnauthenticated, LATHE_INTERNAL},
      {kMissCode, LATHE_MISS},
      {kCapturingCode, LATHE_CAPTURE_MISS},
  };
  std::set<absl::StatusCode> seen;
  for (const auto& [code, status] : table) {
    EXPECT_EQ(to_c_status(code), status) << absl::StatusCodeToString(code);
    EXPECT_TRUE(seen.insert(code).second) << absl::StatusCodeToString(code) << " is listed twice";
  }
  constexpr int kCodes = 17;  // 0 to 16 in absl/status/status.h
  EXPECT_EQ(seen.size(), kCodes);
}

// Misses and captures have their own codes, which only miss_error() and capturing_error() make.
TEST(Boundary, MissAndCaptureHaveTheirOwnCodes) {
  EXPECT_EQ(to_c_status(miss_error("").code()), LATHE_MISS);
  EXPECT_EQ(to_c_status(capturing_error("").code()), LATHE_CAPTURE_MISS);
}

TEST(Boundary, NamesEveryStatus) {
  EXPECT_STREQ(lathe_status_name(LATHE_OK), "OK");
  EXPECT_STREQ(lathe_status_name(LATHE_INVALID_ARGUMENT), "INVALID_ARGUMENT");
  EXPECT_STREQ(lathe_status_name(LATHE_UNSUPPORTED), "UNSUPPORTED");
  EXPECT_STREQ(lathe_status_name(LATHE_NOT_AVAILABLE), "NOT_AVAILABLE");
  EXPECT_STREQ(lathe_status_name(LATHE_OUT_OF_MEMORY), "OUT_OF_MEMORY");
  EXPECT_STREQ(lathe_status_name(LATHE_COMPILE_FAILED), "COMPILE_FAILED");
  EXPECT_STREQ(lathe_status_name(LATHE_MISS), "MISS");
  EXPECT_STREQ(lathe_status_name(LATHE_CAPTURE_MISS), "CAPTURE_MISS");
  EXPECT_STREQ(lathe_status_name(LATHE_TIMEOUT), "TIMEOUT");
  EXPECT_STREQ(lathe_status_name(LATHE_INTERNAL), "INTERNAL");
  EXPECT_NE(lathe_status_name(static_cast<lathe_status>(4711)), nullptr);
}

TEST(Boundary, KeepsTheLastFailureOfEachThread) {
  std::thread([] { EXPECT_STREQ(lathe_last_error(), ""); }).join();
  EXPECT_EQ(at_boundary([] { return absl::UnavailableError("no such thing"); }), LATHE_NOT_AVAILABLE);
  EXPECT_STREQ(lathe_last_error(), "no such thing");
  EXPECT_EQ(at_boundary([] { return absl::OkStatus(); }), LATHE_OK);
  EXPECT_STREQ(lathe_last_error(), "no such thing");
  std::thread([] {
    EXPECT_STREQ(lathe_last_error(), "");
    EXPECT_EQ(at_boundary([] { return absl::InternalError("other thread"); }), LATHE_INTERNAL);
  }).join();
  EXPECT_STREQ(lathe_last_error(), "no such thing");
}

TEST(Boundary, CatchesEveryException) {
  EXPECT_EQ(at_boundary([]() -> absl::Status { throw std::bad_alloc(); }), LATHE_OUT_OF_MEMORY);
  EXPECT_EQ(at_boundary([]() -> absl::Status { throw std::runtime_error("boom"); }), LATHE_INTERNAL);
  EXPECT_STREQ(lathe_last_error(), "boom");
  EXPECT_EQ(at_boundary([]() -> absl::Status { throw 7; }), LATHE_INTERNAL);
}

TEST(Boundary, ReturnsItsVersion) {
  EXPECT_EQ(lathe_version(), std::to_string(LATHE_VERSION_MAJOR) + "." + std::to_string(LATHE_VERSION_MINOR) +
                                 "." + std::to_string(LATHE_VERSION_PATCH));
}

}  // namespace
}  // namespace lathe
