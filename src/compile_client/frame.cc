#include "compile_client/frame.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lathe {
namespace {

struct Header {
  char magic[4];
  uint32_t kind;
  int32_t value;
  uint32_t name_size;
  uint64_t body_size;
  uint64_t checksum;
};
static_assert(sizeof(Header) == 32 && offsetof(Header, checksum) == 24, "the frame header has no padding");
constexpr char kMagic[] = "LFRM";
// Far more than the dump of the largest kernel, which has a few MB.
constexpr uint64_t kMostBytes = uint64_t{256} << 20;

uint64_t checksum_of(const Header& header, absl::string_view name, absl::string_view body) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, &header, offsetof(Header, checksum));
  XXH3_64bits_update(&state, name.data(), name.size());
  XXH3_64bits_update(&state, body.data(), body.size());
  return XXH3_64bits_digest(&state);
}

}  // namespace

absl::Status send_frame(int socket, FrameKind kind, int32_t value, absl::string_view name,
                        absl::string_view body, Deadline deadline) {
  if (name.size() + body.size() > kMostBytes)
    return absl::InvalidArgumentError(absl::StrCat("a message of ", body.size(), " bytes is too large"));
  Header header = {{}, static_cast<uint32_t>(kind), value, static_cast<uint32_t>(name.size()), body.size(),
                   0};
  memcpy(header.magic, kMagic, sizeof(header.magic));
  header.checksum = checksum_of(header, name, body);
  std::string bytes;
  bytes.reserve(sizeof(header) + name.size() + body.size());
  bytes.append(reinterpret_cast<const char*>(&header), sizeof(header));
  absl::StrAppend(&bytes, name, body);
  return send_all(socket, bytes, deadline);
}

absl::StatusOr<Frame> receive_frame(int socket, Deadline deadline) {
  Header header;
  LATHE_RETURN_IF_ERROR(receive_all(socket, &header, sizeof(header), deadline));
  if (memcmp(header.magic, kMagic, sizeof(header.magic)) != 0)
    return absl::DataLossError("a frame has a wrong magic number");
  if (header.body_size > kMostBytes || header.name_size > kMostBytes - header.body_size)
    return absl::DataLossError(absl::StrCat("a frame of ", header.body_size, " bytes is too large"));
  Frame frame{static_cast<FrameKind>(header.kind), header.value, {}, {}};
  frame.name.resize(header.name_size);
  frame.body.resize(header.body_size);
  LATHE_RETURN_IF_ERROR(receive_all(socket, frame.name.data(), frame.name.size(), deadline));
  LATHE_RETURN_IF_ERROR(receive_all(socket, frame.body.data(), frame.body.size(), deadline));
  if (checksum_of(header, frame.name, frame.body) != header.checksum)
    return absl::DataLossError("a frame has a wrong checksum");
  return frame;
}

}  // namespace lathe
