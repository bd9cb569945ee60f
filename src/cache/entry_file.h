// The format of one cache entry. All numbers are little-endian:
//
//   0   8  magic "LATHECCH"
//   8   4  schema version
//   12  4  zero
//   16  8  key length
//   24  8  payload length
//   32  16 XXH3-128 (canonical byte order) of everything else: bytes 0..31, the key and the payload
//   48     the key's full text, then the payload (a serialized artifact or record), then the file ends
//
// The checksum protects against accidents (torn writes, bad disks), not against an attacker.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lathe {

// The kind of payload: a serialized artifact or a record (core/plan_record.h). Each kind has its own file
// names.
enum class EntryKind { kArtifact, kRecord };

struct EntryView {
  absl::string_view key_text, payload;  // into the parsed bytes
};

std::string make_entry(absl::string_view key_text, absl::string_view payload);
// kDataLoss, with the defect as its message, unless the bytes are exactly those that make_entry returned.
absl::StatusOr<EntryView> parse_entry(absl::string_view bytes);

}  // namespace lathe
