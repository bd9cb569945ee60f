// The one error type inside Lathe is absl::Status. What its codes are at the C API:
//
//   kInvalidArgument   INVALID_ARGUMENT   the caller's request or file is wrong
//   kUnimplemented     UNSUPPORTED        legal, but there is no kernel for it
//   kUnavailable       NOT_AVAILABLE      something that is needed is missing or refused, and so are
//   kNotFound,
//                                         kPermissionDenied and kDataLoss (a file that is damaged)
//   kResourceExhausted OUT_OF_MEMORY
//   kAborted           COMPILE_FAILED     the compiler rejected a kernel, or ended
//   kDeadlineExceeded  TIMEOUT
//   kCancelled         CANCELLED          a callback of the caller's said so
//   kMissCode          MISS               made by miss_error() alone
//   kCapturingCode     CAPTURE_MISS       made by capturing_error() and the tables of driver results alone
//   anything else      INTERNAL           a broken invariant
//
// A message names the request and the cause: "matmul f16 m=7 n=4096 k=33 on cpu: lda 31 < k 33".
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lathe {

// Codes that no library Lathe uses answers with. A test keeps their raw names out of the other sources.
inline constexpr absl::StatusCode kMissCode = absl::StatusCode::kOutOfRange;
inline constexpr absl::StatusCode kCapturingCode = absl::StatusCode::kFailedPrecondition;

// The policy forbids to make the kernel that a call needs.
inline absl::Status miss_error(absl::string_view message) { return absl::Status(kMissCode, message); }
// A stream that is being captured forbids what a call needs.
inline absl::Status capturing_error(absl::string_view message) {
  return absl::Status(kCapturingCode, message);
}

}  // namespace lathe

#define LATHE_RETURN_IF_ERROR(expr)                                   \
  do {                                                                \
    if (absl::Status status_ = (expr); !status_.ok()) return status_; \
  } while (false)

#define LATHE_CONCAT_INNER(a, b) a##b
#define LATHE_CONCAT(a, b) LATHE_CONCAT_INNER(a, b)
#define LATHE_ASSIGN_OR_RETURN(lhs, expr) \
  LATHE_ASSIGN_OR_RETURN_IMPL(LATHE_CONCAT(statusor_, __LINE__), lhs, expr)
#define LATHE_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                                \
  if (!tmp.ok()) return std::move(tmp).status();    \
  lhs = *std::move(tmp)
