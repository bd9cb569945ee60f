// Sends and receives over a connected socket by a deadline, whatever the peer does. Raises no SIGPIPE and
// works for blocking and non-blocking sockets.
#pragma once

#include <chrono>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lathe {

using Deadline = std::chrono::steady_clock::time_point;
constexpr Deadline kNoDeadline = Deadline::max();

// Errors of all these: kUnavailable, the connection is lost or closed; kDeadlineExceeded.
//
// Waits for one of poll(2)'s `events`.
absl::Status wait_for(int socket, short events, Deadline deadline);
absl::Status send_all(int socket, absl::string_view bytes, Deadline deadline);
absl::Status receive_all(int socket, void* into, size_t size, Deadline deadline);
// Returns the bytes that are there: at least one, at most `most`.
absl::StatusOr<size_t> receive_some(int socket, void* into, size_t most, Deadline deadline);

}  // namespace lathe
