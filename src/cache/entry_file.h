// The bytes of one cache entry. Little-endian:
//
//   0   8  magic "LATHECCH"
//   8   4  schema version
//   12  4  zero
//   16  8  key length
//   24  8  payload length
//   32  16 XXH3-128 (canonical byte order) of bytes 0..31, the key and the payload: of everything but itself
//   48     the key's full text, then the payload (a serialized artifact or record), then nothing
//
// The checksum is against accidents (torn writes, bad disks), not against an attacker.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lathe {

// What an entry's payload is: a serialized artifact, or a record (core/plan_record.h). Stores name the two
// differently.
enum class EntryKind { kArtifact, kRecord };

struct EntryView {
  absl::string_view key_text, payload;  // into the parsed bytes
};

std::string make_entry(absl::string_view key_text, absl::string_view payload);
// kDataLoss naming the defect unless every bit is as make_entry left it.
absl::StatusOr<EntryView> parse_entry(absl::string_view bytes);

}  // namespace lathe
