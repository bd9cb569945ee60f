// The one error type inside Lathe is absl::Status. How its codes map to lathe_status:
//
//   kInvalidArgument  -> INVALID_ARGUMENT   kUnimplemented   -> UNSUPPORTED     kUnavailable -> NOT_AVAILABLE
//   kResourceExhausted-> OUT_OF_MEMORY      kAborted         -> COMPILE_FAILED  kNotFound    -> MISS
//   kFailedPrecondition -> CAPTURE_MISS     kDeadlineExceeded-> TIMEOUT         kCancelled   -> CANCELLED
//   anything else     -> INTERNAL
//
// A message names the request and the cause: "matmul f16 m=7 n=4096 k=33 on cpu: lda 31 < k 33".
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

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
