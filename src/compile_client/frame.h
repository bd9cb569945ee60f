// What travels between this library and its compiler processes: whole messages over a stream socket.
//
//   0   4  magic "LFRM"
//   4   4  kind (FrameKind)
//   8   4  value: of kOutput what the sink is told it is, of kResult what the compiler returned, and
//          of kUnavailable LATHE_COMPILER_OUT_OF_MEMORY where that is why
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
  kHello = 1,    // the process is ready; body: its codegen id
  kUnavailable,  // in its place: why it can never be; then it ends
  kRequest,      // body: as core/compiler_abi.h says
  kOutput,       // one call of the sink
  kResult,       // the last of an answer
  kGoodbye       // it has been idle for long and ends: what was sent to it since has not been read
};

struct Frame {
  FrameKind kind;
  int32_t value = 0;
  std::string name, body;
};

// Neither raises SIGPIPE. kUnavailable: the other side has closed; kDeadlineExceeded; kDataLoss: what came is
// no frame.
absl::Status send_frame(int socket, FrameKind kind, int32_t value, absl::string_view name,
                        absl::string_view body, Deadline deadline);
absl::StatusOr<Frame> receive_frame(int socket, Deadline deadline);

}  // namespace lathe
