// The messages between this library and its compiler processes, over a stream socket.
//
//   0   4  magic "LFRM"
//   4   4  kind (FrameKind)
//   8   4  value. kOutput: the kind that the sink gets; kResult: what the compiler returned; kUnavailable:
//          LATHE_COMPILER_OUT_OF_MEMORY if that is the cause
//   12  4  length of the name
//   16  8  length of the body
//   24  8  XXH3-64 of bytes 0..23, the name and the body
//   32     the name, then the body
#pragma once

#include <chrono>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/socket_io.h"

namespace lathe {

enum class FrameKind : uint32_t {
  kHello = 1,    // first message: the process is ready; body: its codegen id
  kUnavailable,  // first message: the process cannot work and ends; body: the cause
  kRequest,      // body: as core/compiler_abi.h says
  kOutput,       // one call of the sink
  kResult,       // the end of an answer
  kGoodbye       // the process was idle too long and ends; it has not read any later request
};

struct Frame {
  FrameKind kind;
  int32_t value = 0;
  std::string name, body;
};

// Neither raises SIGPIPE. kUnavailable: the other side has closed the socket. kDeadlineExceeded: the deadline passed.
// kDataLoss: the data received is not a valid frame.
absl::Status send_frame(int socket, FrameKind kind, int32_t value, absl::string_view name,
                        absl::string_view body, Deadline deadline);
absl::StatusOr<Frame> receive_frame(int socket, Deadline deadline);

}  // namespace lathe
