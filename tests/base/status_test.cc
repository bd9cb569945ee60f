#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace lathe {
namespace {

absl::StatusOr<std::unique_ptr<int>> make(bool good) {
  if (!good) return absl::NotFoundError("no int");
  return std::make_unique<int>(7);
}
absl::StatusOr<int> sum(bool first, bool second) {
  LATHE_ASSIGN_OR_RETURN(const std::unique_ptr<int> a, make(first));
  LATHE_ASSIGN_OR_RETURN(const std::unique_ptr<int> b, make(second));
  LATHE_RETURN_IF_ERROR(absl::OkStatus());
  return *a + *b;
}

TEST(StatusMacrosTest, AssignValuesAndReturnTheFirstError) {
  EXPECT_EQ(sum(true, true).value(), 14);
  EXPECT_EQ(sum(true, false).status(), absl::NotFoundError("no int"));
  EXPECT_EQ(sum(false, true).status(), absl::NotFoundError("no int"));
}

TEST(ErrnoStatus, NamesTheCallAndNeverUsesAReservedCode) {
  for (int error = 1; error < 134; ++error) {  // EHWPOISON is 133
    const absl::Status status = errno_status(error, "open x");
    EXPECT_NE(status.code(), kMissCode) << error;
    EXPECT_NE(status.code(), kCapturingCode) << error;
    EXPECT_EQ(status.message().find("open x: "), 0u) << status;
  }
  EXPECT_EQ(errno_status(ENOENT, "").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(errno_status(EACCES, "").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(errno_status(ENOMEM, "").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(errno_status(ENOTDIR, "").code(), absl::StatusCode::kUnknown);
}

}  // namespace
}  // namespace lathe
