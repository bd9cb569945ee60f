// A bundle: many artifacts in one file that is only read. Little-endian:
//
//   0   8  magic "LATHEBDL"
//   8   4  schema version
//   12  4  number of records
//   16  8  bytes of the index: the records, `about` and the keys' texts
//   24  8  bytes of `about`
//   32  8  bytes of the file
//   40  16 XXH3-128 (canonical byte order) of bytes 0..39 and the index
//   56     the records, ascending by fingerprint:
//            0   16 XXH3-128 of the key's text (canonical byte order)
//            16  8  where the key's text starts in the file
//            24  4  its length
//            28  4  how the payload is stored: 0, as it is; 1, as one zstd frame that tells its content's
//            size 32  8  where the payload starts in the file 40  8  its bytes there 48  16 XXH3-128 of those
//            bytes
//          `about` (JSON, for people and for checks of the whole), the keys' texts, then the payloads
//          (serialized artifacts and records). Keys with one and the same payload share it.
//
// Nothing but what is asked for is unpacked: opening reads and checks the index, a look-up reads, checks and
// unpacks one payload. The checksums are against accidents, not against an attacker: a bundle is trusted as
// the library beside it is.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cache/private_directory.h"
#include "core/artifact.h"
#include "core/key.h"
#include "core/plan_record.h"

namespace lathe {

// The file's bytes. `artifacts`: key text and serialized artifact (or record, core/plan_record.h), each key
// once. A payload that zstd makes smaller is stored so.
std::string make_bundle(absl::string_view about,
                        const std::vector<std::pair<std::string, std::string>>& artifacts);

// Immutable once open, so thread-safe. The file stays open: it may be replaced or removed meanwhile.
class Bundle {
 public:
  // kNotFound: there is no such file. kDataLoss: why it is refused. Else: it could not be read. All name the
  // file.
  static absl::StatusOr<std::unique_ptr<Bundle>> open(const std::string& path);

  const std::string& path() const { return path_; }
  absl::string_view about() const { return about_; }
  size_t size() const { return count_; }
  uint64_t file_bytes() const;
  // The i-th key's text, ascending by fingerprint.
  absl::string_view key_text(size_t i) const;
  // Of the i-th payload, in the file; keys with one payload tell the same place.
  uint64_t payload_at(size_t i) const;
  uint64_t stored_bytes(size_t i) const;
  // The i-th serialized artifact or record. kDataLoss: it is damaged.
  absl::StatusOr<std::string> payload(size_t i) const;
  // kNotFound: not in it. kDataLoss: its payload is damaged.
  absl::StatusOr<Artifact> read(const Key& key) const;
  absl::StatusOr<PlanRecord> read_record(const Key& key) const;

 private:
  Bundle(std::string path, FileDescriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  absl::Status read_index();
  absl::Status check_records(uint64_t file_bytes) const;
  absl::Status damaged(absl::string_view cause) const;
  // kDataLoss where the file ends early; what the file system failed at may be read another time.
  absl::Status unread(const absl::Status& read) const;
  // `parse`d, whichever kind of payload that takes.
  template <typename Parse>
  auto read_as(const Key& key, Parse parse) const -> decltype(parse(absl::string_view()));

  const std::string path_;
  FileDescriptor file_;
  std::string head_;  // header and index
  size_t count_ = 0;
  absl::string_view about_;
};

}  // namespace lathe
