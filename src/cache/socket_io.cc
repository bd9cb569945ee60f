#include "cache/socket_io.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lathe {
namespace {

absl::Status lost(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", strerror(errno)));
}

}  // namespace

absl::Status wait_for(int socket, short events, Deadline deadline) {
  for (;;) {
    int milliseconds = -1;
    if (deadline != kNoDeadline) {
      const auto left = deadline - std::chrono::steady_clock::now();
      if (left <= left.zero()) return absl::DeadlineExceededError("no answer in time");
      constexpr int64_t kHour = 3600 * 1000;
      milliseconds = static_cast<int>(
          std::min(kHour, std::chrono::duration_cast<std::chrono::milliseconds>(left).count() + 1));
    }
    pollfd polled = {socket, events, 0};
    const int ready = poll(&polled, 1, milliseconds);
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return lost("poll");
  }
}

absl::Status send_all(int socket, absl::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      LATHE_RETURN_IF_ERROR(wait_for(socket, POLLOUT, deadline));
    } else if (errno != EINTR) {
      return lost("send");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> receive_some(int socket, void* into, size_t most, Deadline deadline) {
  for (;;) {
    // Check the deadline before every read, or a peer that never pauses could exceed it.
    LATHE_RETURN_IF_ERROR(wait_for(socket, POLLIN, deadline));
    const ssize_t got = recv(socket, into, most, MSG_DONTWAIT);
    if (got > 0) return static_cast<size_t>(got);
    if (got == 0) return absl::UnavailableError("the connection is closed");
    if (errno != EAGAIN && errno != EINTR) return lost("receive");
  }
}

absl::Status receive_all(int socket, void* into, size_t size, Deadline deadline) {
  char* at = static_cast<char*>(into);
  while (size > 0) {
    LATHE_ASSIGN_OR_RETURN(const size_t got, receive_some(socket, at, size, deadline));
    at += got;
    size -= got;
  }
  return absl::OkStatus();
}

}  // namespace lathe
