// The one error type inside Lathe is absl::Status. Its codes map to the C API like this:
//
//   kInvalidArgument   INVALID_ARGUMENT   the caller's request or file is wrong
//   kUnimplemented     UNSUPPORTED        legal, but there is no kernel for it
//   kUnavailable       NOT_AVAILABLE      something that Lathe needs is missing or denied; so are kNotFound,
//                                         kPermissionDenied, kDataLoss (a damaged file) and kUnknown (a
//                                         system call failed)
//   kResourceExhausted OUT_OF_MEMORY
//   kAborted           COMPILE_FAILED     the compiler rejected a kernel, or its process ended
//   kDeadlineExceeded  TIMEOUT
//   kCancelled         CANCELLED          a callback of the caller asked for it
//   kMissCode          MISS               returned only by miss_error()
//   kCapturingCode     CAPTURE_MISS       returned only by capturing_error() and the driver result tables
//   anything else      INTERNAL           a broken invariant
//
// A message names the request and the cause: "matmul f16 m=7 n=4096 k=33 on cpu: lda 31 < k 33".
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace lathe {

// A test keeps the raw names of these codes out of the other sources.
inline constexpr absl::StatusCode kMissCode = absl::StatusCode::kOutOfRange;
inline constexpr absl::StatusCode kCapturingCode = absl::StatusCode::kFailedPrecondition;

// The policy forbids making the kernel that a call needs.
inline absl::Status miss_error(absl::string_view message) { return absl::Status(kMissCode, message); }
// The failure of a system call: kNotFound, kPermissionDenied or kResourceExhausted if that is the cause,
// otherwise kUnknown. Abseil's own conversion returns the two codes above for some errors.
inline absl::Status errno_status(int error, absl::string_view what) {
  const std::string message = absl::StrCat(what, ": ", std::strerror(error));
  switch (error) {
    case ENOENT: return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS: return absl::PermissionDeniedError(message);
    case ENOMEM: return absl::ResourceExhaustedError(message);
    default: return absl::UnknownError(message);
  }
}
// The stream is being captured, which forbids something that the call needs.
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
